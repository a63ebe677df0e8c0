"""The actions on queues: make and delete them, purge them, list them, read and set their attributes and tags."""

import re
from base64 import b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Iterator
from itertools import islice
from typing import Any

from leveret.core import browse
from leveret.protocols.http.response import Response
from leveret.protocols.sqs.account import Account
from leveret.protocols.sqs.attributes import ALL, READABLE, check_attributes, check_kept, defaults, parsed
from leveret.protocols.sqs.authorization import authorize_grants, authorize_redrive, check_policy, may_see
from leveret.protocols.sqs.errors import SqsError, invalid
from leveret.protocols.sqs.queues import FIFO_SUFFIX, SqsQueue, allows_source, check_allow_policy, read_redrive_policy
from leveret.protocols.sqs.wire import Answer, SqsCall, names, number, required, texts

NAME_CHARS_MAX = 80

BAD_NAME = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"

_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")
PURGE_MS = 60_000
RESULTS_MAX = 1_000
TAGS_MAX = 50
KEY_CHARS_MAX = 128
VALUE_CHARS_MAX = 256


def get_queue_attributes(call: SqsCall, queue: SqsQueue) -> Response:
    """The attributes that are asked for."""
    wanted = names(call.parameters, "AttributeNames")
    for name in wanted:
        if name not in READABLE and name != ALL:
            raise SqsError("InvalidAttributeName", f"Unknown Attribute {name}.")
    if not wanted:
        return call.answer({})
    with call.account.runtime:
        known = {**described(queue), **queue.attributes}
    found = known if ALL in wanted else {name: known[name] for name in wanted if name in known}
    return call.answer({"Attributes": found} if found else {})


def described(queue: SqsQueue) -> dict[str, str]:
    """The attributes that cannot be set."""
    core, details = queue.core, queue.details
    return {
        "QueueArn": queue.arn,
        "ApproximateNumberOfMessages": str(core.depth),
        "ApproximateNumberOfMessagesNotVisible": str(core.leased + core.backing_off),
        "ApproximateNumberOfMessagesDelayed": str(core.scheduled),
        "CreatedTimestamp": str(details["created_s"]),
        "LastModifiedTimestamp": str(details["modified_s"]),
    }


def set_queue_attributes(call: SqsCall, queue: SqsQueue) -> Answer:
    """Other values for some attributes."""
    required(call.parameters, "Attributes")
    wanted = texts(call.parameters, "Attributes")
    if queue.fifo and wanted.get("FifoQueue", "true").lower() != "true":
        raise SqsError("InvalidAttributeValue", " Reason: Modifying queue type is not supported.", name="FifoQueue")
    given = check_attributes(wanted, queue.fifo)
    given.pop("FifoQueue", None)  # the queue is one
    account = call.account
    with account.runtime:
        check_values(call, queue.name, queue.fifo, {**queue.attributes, **given}, given, queue)
        account.queues.change(queue, with_encryption(given))
        commit_batch = account.runtime.commit()
    return call.durable(commit_batch)


def check_values(
    call: SqsCall,
    name: str,
    fifo: bool,
    attributes: dict[str, str],
    given: dict[str, str],
    queue: SqsQueue | None = None,
) -> None:
    """Refuse attributes that contradict each other, name queues that do not exist, or open queues. Under the lock.

    `given` are those that change; `queue` is None while it is made.
    """
    if attributes.get("FifoThroughputLimit") == "perMessageGroupId" and (
        attributes.get("DeduplicationScope", "queue") != "messageGroup"
    ):
        raise SqsError("InvalidAttributeValue", name="FifoThroughputLimit")
    if "Policy" in given:
        check_policy(given["Policy"])
        authorize_grants(call, name, queue, given["Policy"])
    if "RedriveAllowPolicy" in given:
        check_allow_policy(given["RedriveAllowPolicy"])
    if "RedrivePolicy" in given:
        target = _check_redrive(call.account, name, fifo, given["RedrivePolicy"])
        if target is not None:
            authorize_redrive(call, name, queue, target)


def _check_redrive(account: Account, name: str, fifo: bool, value: str) -> SqsQueue | None:
    """Refuse a dead-letter queue that is not there, of another type, or does not allow this source; give it."""
    policy = read_redrive_policy(value, account.settings)
    if policy is None:
        return None
    start = f"Value {value} for parameter RedrivePolicy is invalid. Reason: "
    target = account.queues.find(policy.target)
    if target is None:
        raise invalid(start + "Dead letter target does not exist.")
    if target.fifo != fifo:
        raise invalid(start + "Dead-letter queue must be same type of queue as the source.")
    if not allows_source(target.kept.get("RedriveAllowPolicy"), account.settings.arn(name)):
        raise invalid(start + "Dead letter target does not allow this queue as its source.")
    return target


def with_encryption(given: dict[str, str]) -> dict[str, str]:
    """Attributes with what they imply: either a key of KMS or Amazon's own encryption is in use, or neither."""
    key, own = given.get("KmsMasterKeyId"), given.get("SqsManagedSseEnabled") == "true"
    if key and own:
        raise SqsError(
            "InvalidAttributeName",
            "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS "
            "SSE.",
        )
    if key:
        return {**given, "SqsManagedSseEnabled": "false"}
    return {**given, "KmsMasterKeyId": "", "KmsDataKeyReusePeriodSeconds": ""} if own or key == "" else given


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


def delete_queue(call: SqsCall, queue: SqsQueue) -> Answer:
    """A queue goes, with everything in it."""
    account = call.account
    with account.runtime:
        account.queues.delete(queue)
        account.runtime.waiters.wake_all([queue.core.id])
        account.note_deleted(queue.name)
        commit_batch = account.runtime.commit()
    return call.durable(commit_batch)


def purge_queue(call: SqsCall, queue: SqsQueue) -> Answer:
    """Everything in a queue goes, also what is delayed or received; what was sent before is no duplicate any more."""
    account = call.account
    with account.runtime as core:
        if account.settings.guards and core.now_ms - queue.purged_ms < PURGE_MS:
            raise SqsError("PurgeQueueInProgress", name=queue.name)
        queue.purged_ms = core.now_ms
        browse.purge(queue.core, True)
        queue.details["purges"] += 1
        account.queues.keep(queue)
        commit_batch = account.runtime.commit()
    return call.durable(commit_batch)


def list_queues(call: SqsCall) -> Response:
    """The URLs of queues, by name."""
    prefix = call.parameters.get("QueueNamePrefix") or ""
    with call.account.runtime:
        found = call.account.queues.after(_last(call), prefix)
        return call.answer(_page(call, (queue for queue in found if may_see(call, queue)), "QueueUrls"))


def list_dead_letter_source_queues(call: SqsCall, queue: SqsQueue) -> Response:
    """The queues whose dead letters go to a queue."""
    with call.account.runtime:
        last, sources = _last(call), call.account.queues.sources(queue.name)
        found = (each for each in sources if each.name > last and may_see(call, each))
        return call.answer({"queueUrls": [], **_page(call, found, "queueUrls")})


def get_queue_url(call: SqsCall) -> Response:
    """The URL of a queue."""
    name: str = required(call.parameters, "QueueName")
    owner = call.parameters.get("QueueOwnerAWSAccountId")
    queue = call.account.queues.get(name)
    if owner not in (None, "", call.account.settings.account) or not may_see(call, queue):
        raise SqsError("QueueDoesNotExist")
    return call.answer({"QueueUrl": call.url(queue)})


def _last(call: SqsCall) -> str:
    """The last name of the page before; "" for the first page."""
    size, token = number(call.parameters, "MaxResults", RESULTS_MAX, least=1), call.parameters.get("NextToken")
    if not token:
        return ""
    if size is None:
        raise invalid("MaxResults is a mandatory parameter when you provide a value for NextToken.")
    return _read_token(token)


def _page(call: SqsCall, found: Iterator[SqsQueue], key: str) -> dict[str, Any]:
    """As many as one answer has; where the next one begins is said to those who asked for pages."""
    size = number(call.parameters, "MaxResults", RESULTS_MAX, least=1)
    page = list(islice(found, size or RESULTS_MAX))
    result: dict[str, Any] = {key: [call.url(queue) for queue in page]} if page else {}
    if size is not None and next(found, None) is not None:
        result["NextToken"] = urlsafe_b64encode(page[-1].name.encode()).decode()
    return result


def _read_token(token: str) -> str:
    try:
        return b64decode(token, altchars=b"-_", validate=True).decode()
    except (Base64Error, ValueError):
        raise invalid("Invalid or expired next token.") from None


def check_tags(tags: dict[str, str]) -> None:
    """Refuse tags that are too many or too long."""
    if len(tags) > TAGS_MAX:
        raise invalid(f"Too many tags added: a queue has at most {TAGS_MAX}.")
    for key, value in tags.items():
        if not 1 <= len(key) <= KEY_CHARS_MAX or len(value) > VALUE_CHARS_MAX:
            raise invalid(
                f"Tag keys must be between 1 and {KEY_CHARS_MAX} characters in length, values at most "
                f"{VALUE_CHARS_MAX}."
            )


def kept_details(queue: str, tags: dict[str, str], attributes: dict[str, str]) -> dict[str, str]:
    """The attributes of a queue that are kept beside it; tags and attributes are checked."""
    check_tags(tags)
    return check_kept(attributes, queue)


def tag_queue(call: SqsCall, queue: SqsQueue) -> Answer:
    """Add or replace tags."""
    if not call.parameters.get("Tags"):
        raise SqsError("MissingParameter", name="Tags")
    return _set_tags(call, queue, {**queue.tags, **texts(call.parameters, "Tags")})


def untag_queue(call: SqsCall, queue: SqsQueue) -> Answer:
    """Remove tags."""
    required(call.parameters, "TagKeys")
    gone = names(call.parameters, "TagKeys")
    if not gone:
        raise invalid(f"Tag keys must be between 1 and {KEY_CHARS_MAX} characters in length.")
    return _set_tags(call, queue, {key: value for key, value in queue.tags.items() if key not in gone})


def list_queue_tags(call: SqsCall, queue: SqsQueue) -> Response:
    """All tags."""
    return call.answer({"Tags": queue.tags} if queue.tags else {})


def _set_tags(call: SqsCall, queue: SqsQueue, tags: dict[str, str]) -> Answer:
    check_tags(tags)
    with call.account.runtime:
        queue.details["tags"] = tags
        call.account.queues.keep(queue)
        commit_batch = call.account.runtime.commit()
    return call.durable(commit_batch)
