"""CreateQueue: make a queue, or find the same one."""

import re

from leveret.protocols.sqs.attributes import check_attributes, defaults, parsed
from leveret.protocols.sqs.call import Answer, SqsCall
from leveret.protocols.sqs.errors import SqsError, invalid
from leveret.protocols.sqs.parameters import required, texts
from leveret.protocols.sqs.queue_attributes import check_values, with_encryption
from leveret.protocols.sqs.queue_tags import check_tags
from leveret.protocols.sqs.queues import FIFO_SUFFIX, SqsQueue

NAME_CHARS_MAX = 80

BAD_NAME = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"

_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")


def name_of_new(call: SqsCall) -> str:
    """The name that a queue is to have; an empty one is wrong, not missing."""
    if call.parameters.get("QueueName") == "":
        raise invalid(BAD_NAME)
    name: str = required(call.parameters, "QueueName")
    return name


def create_queue(call: SqsCall) -> Answer:
    """The queue of that name, made if need be."""
    name = name_of_new(call)
    account = call.account
    given = check_attributes(texts(call.parameters, "Attributes"), _is_fifo(call, name))
    tags = texts(call.parameters, "tags") or texts(call.parameters, "Tags")
    check_tags(tags)
    with account.runtime:
        existing = account.queues.find(name)
        if existing is not None:
            _check_same(existing, given)
            return call.answer({"QueueUrl": call.url(existing)})
        if account.settings.guards and account.deleted.has(name):
            raise SqsError("QueueDeletedRecently")
        fifo = name.endswith(FIFO_SUFFIX)
        check_values(call, name, fifo, given, given)
        stored = {each: value for each, value in given.items() if each != "FifoQueue"}
        queue = account.queues.create(name, {**defaults(fifo), **with_encryption(stored)}, tags)
        commit_batch = account.runtime.commit()
    return call.durable(commit_batch, {"QueueUrl": call.url(queue)})


def _is_fifo(call: SqsCall, name: str) -> bool:
    """Whether it is to be a FIFO queue; its name has to say so too."""
    wanted = texts(call.parameters, "Attributes").get("FifoQueue", "").lower() == "true"
    if wanted and not (name.endswith(FIFO_SUFFIX) and _NAME.fullmatch(name.removesuffix(FIFO_SUFFIX))):
        raise invalid(
            "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with "
            ".fifo suffix and be 1 to 80 in length"
        )
    if (not wanted and not _NAME.fullmatch(name)) or len(name) > NAME_CHARS_MAX:
        raise invalid(BAD_NAME)
    return wanted


def _check_same(queue: SqsQueue, given: dict[str, str]) -> None:
    """Refuse a queue that exists with other attributes."""
    current = queue.attributes
    for name, value in given.items():
        has = current.get(name, "")
        if has != value and (not value or parsed(has) != parsed(value) or parsed(value) is None):
            raise SqsError("QueueNameExists", name=name)
