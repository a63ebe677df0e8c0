"""TagQueue, UntagQueue and ListQueueTags."""

from leveret.protocols.http.response import Response
from leveret.protocols.sqs.call import Answer, SqsCall
from leveret.protocols.sqs.errors import SqsError, invalid
from leveret.protocols.sqs.parameters import names, required, texts
from leveret.protocols.sqs.queues import SqsQueue

TAGS_MAX = 50
KEY_CHARS_MAX = 128
VALUE_CHARS_MAX = 256


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


def tag_queue(call: SqsCall, queue: SqsQueue) -> Answer:
    """Add or replace tags."""
    if not call.parameters.get("Tags"):
        raise SqsError("MissingParameter", name="Tags")
    return _change(call, queue, {**queue.tags, **texts(call.parameters, "Tags")})


def untag_queue(call: SqsCall, queue: SqsQueue) -> Answer:
    """Remove tags."""
    required(call.parameters, "TagKeys")
    gone = names(call.parameters, "TagKeys")
    if not gone:
        raise invalid(f"Tag keys must be between 1 and {KEY_CHARS_MAX} characters in length.")
    return _change(call, queue, {key: value for key, value in queue.tags.items() if key not in gone})


def list_queue_tags(call: SqsCall, queue: SqsQueue) -> Response:
    """All tags."""
    return call.answer({"Tags": queue.tags} if queue.tags else {})


def _change(call: SqsCall, queue: SqsQueue, tags: dict[str, str]) -> Answer:
    check_tags(tags)
    with call.account.runtime:
        queue.details["tags"] = tags
        call.account.queues.keep(queue)
        commit_batch = call.account.runtime.commit()
    return call.durable(commit_batch)
