"""ReceiveMessage: take messages, or wait for them, and what is told about each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from leveret.core.deadletter import received_before
from leveret.core.properties import Properties
from leveret.observability.trace_context import context_of, to_aws
from leveret.protocols.http.response import Response
from leveret.protocols.sqs import message_attributes
from leveret.protocols.sqs.errors import SqsError
from leveret.protocols.sqs.loops import is_forbidden, received, received_json
from leveret.protocols.sqs.message_attributes import Value
from leveret.protocols.sqs.queues import SqsQueue
from leveret.protocols.sqs.send_message import FLAGS_AT, PLAIN_SENDERS, sequence_number
from leveret.protocols.sqs.wire import Answer, SqsCall, names, number
from leveret.runtime.message import Message, any_stored

if TYPE_CHECKING:
    from leveret.protocols.sqs.account import Account

MESSAGES_MAX = 10
WAIT_S_MAX = 20
VISIBILITY_S_MAX = 43_200
VISIBILITY_S_DEFAULT = 30
"""Of a queue that was declared by AMQP without a visibility timeout."""
BODY_ENCODING = "leveret.body_encoding"
BASE64 = Value("String", "base64")
SYSTEM = (
    "SenderId",
    "SentTimestamp",
    "ApproximateReceiveCount",
    "ApproximateFirstReceiveTimestamp",
    "SequenceNumber",
    "MessageDeduplicationId",
    "MessageGroupId",
    "AWSTraceHeader",
    "DeadLetterQueueSourceArn",
)


class WantedAttributes(NamedTuple):
    """What a receiver wants to know beside the body."""

    system: frozenset[str]
    attributes: list[str]


EVERYTHING = frozenset(SYSTEM)
MORE = frozenset(("AttributeNames", "MessageSystemAttributeNames", "MessageAttributeNames"))
BODIES = WantedAttributes(frozenset(), [])
"""What is wanted by those who ask for nothing more."""


def receive_message(call: SqsCall, queue: SqsQueue) -> Answer:
    """Take up to ten messages."""
    given = call.parameters
    count = number(given, "MaxNumberOfMessages", MESSAGES_MAX, least=1) or 1
    wait_s = number(given, "WaitTimeSeconds", WAIT_S_MAX)
    lease_s = number(given, "VisibilityTimeout", VISIBILITY_S_MAX)
    if wait_s is None:
        wait_s = queue.wait_s
    if lease_s is None and queue.core.policy.lease_ms is None:
        lease_s = VISIBILITY_S_DEFAULT
    answer = partial(_answer, call, queue, wanted(call))
    attempt_id = given.get("ReceiveRequestAttemptId") if queue.fifo else None
    if attempt_id:
        repeated = _repeat(call, queue, attempt_id, lease_s)
        if repeated:
            return answer(repeated)
        answer = partial(_remember, call, queue, attempt_id, answer)
    if queue.core.leased >= call.account.settings.in_flight_max:
        return _over_limit(call, queue, wait_s)
    return _take(call, queue, answer, count, wait_s, lease_s)


def wanted(call: SqsCall) -> WantedAttributes:
    """What is to be told beside the bodies."""
    given = call.parameters
    if MORE.isdisjoint(given):
        return BODIES
    system = {*names(given, "AttributeNames"), *names(given, "MessageSystemAttributeNames")}
    for name in system - EVERYTHING - {"All"}:
        raise SqsError("InvalidAttributeName", f"Unknown Attribute {name}.")
    return WantedAttributes(EVERYTHING if "All" in system else frozenset(system), names(given, "MessageAttributeNames"))


def _answer(call: SqsCall, queue: SqsQueue, what: WantedAttributes, taken: list[Message]) -> Response:
    if not taken:
        return call.answer({})
    if call.in_json and what is BODIES:
        text = received_json(taken, call.account.receipts, queue.core.id, call.account.tag, PLAIN_SENDERS)
        if text is not None:
            return call.answer_text(text)
    return call.answer({"Messages": shown(call.account, queue, taken, what)})


def _over_limit(call: SqsCall, queue: SqsQueue, wait_s: int) -> Response:
    """Nothing more can be taken: a client that does not wait is told so, the others and those of FIFO queues get
    nothing.
    """
    if queue.fifo or wait_s:
        return call.answer({})
    raise SqsError("OverLimit", f"Too many messages in flight for the queue {queue.name}: delete some first.")


def _repeat(call: SqsCall, queue: SqsQueue, attempt_id: str, lease_s: int | None) -> list[Message]:
    """The messages of the same attempt before, held anew; nothing when there was none."""
    account = call.account
    with account.runtime as core:
        messages = account.attempts.repeat(queue.core.id, attempt_id, core.now_ms)
        lease_ms = (queue.core.policy.lease_ms or 0) if lease_s is None else lease_s * 1000
        for message in messages:
            queue.core.extend(message.held, message.lease, lease_ms)
        if messages:
            account.attempts.remember(queue.core.id, attempt_id, messages, core.now_ms)
    return messages


def _remember(
    call: SqsCall, queue: SqsQueue, attempt_id: str, answer: Callable[[list[Message]], Response], taken: list[Message]
) -> Response:
    if taken:
        call.account.attempts.remember(queue.core.id, attempt_id, taken, call.account.now_ms())
    return answer(taken)


def _take(
    call: SqsCall,
    queue: SqsQueue,
    answer: Callable[[list[Message]], Response],
    count: int,
    wait_s: int,
    lease_s: int | None,
) -> Answer:
    user = call.caller.user
    taken = call.account.async_broker.receive(
        queue.handle, _as_they_are, count, wait_s=wait_s, lease_s=lease_s, consumer=user, user=user
    )
    if isinstance(taken, list) and not any_stored(taken):
        return answer(taken)
    return _fetched(call, answer, taken)


def _as_they_are(taken: list[Message]) -> list[Message]:
    return taken


async def _fetched(
    call: SqsCall, answer: Callable[[list[Message]], Response], taken: list[Message] | Awaitable[list[Message]]
) -> Response:
    """Wait for messages; bodies that are kept outside of the log are fetched in another thread."""
    messages = taken if isinstance(taken, list) else await taken
    if any_stored(messages):
        await call.account.async_broker.in_thread(lambda: [message.data for message in messages])
    return answer(messages)


def shown(account: Account, queue: SqsQueue, messages: list[Message], wanted: WantedAttributes) -> list[dict[str, Any]]:
    """Messages as an answer has them."""
    told = received(messages, account.receipts, queue.core.id, account.tag, PLAIN_SENDERS)
    if wanted.system or wanted.attributes:
        for each, message in zip(told, messages, strict=True):
            _add(each, account, queue, message, wanted)
    return told


def _add(told: dict[str, Any], account: Account, queue: SqsQueue, message: Message, wanted: WantedAttributes) -> None:
    """Tell what is wanted beside the body."""
    content = message.content
    if wanted.system:
        facts = _system(account, queue, message)
        attributes = {name: facts[name] for name in SYSTEM if name in wanted.system and name in facts}
        if attributes:
            told["Attributes"] = attributes
    encoded = not _is_text(message.data)
    if wanted.attributes and (encoded or content.content[FLAGS_AT : content.header_len] not in PLAIN_SENDERS):
        values = message_attributes.load(content.properties)
        if encoded:
            values[BODY_ENCODING] = BASE64
        values = message_attributes.selected(values, wanted.attributes)
        if values:
            told["MD5OfMessageAttributes"] = message_attributes.digest(values)
            told["MessageAttributes"] = {name: value.shown() for name, value in values.items()}


def _is_text(data: bytes) -> bool:
    try:
        return not is_forbidden(data.decode())
    except UnicodeDecodeError:
        return False


def _system(account: Account, queue: SqsQueue, message: Message) -> dict[str, str]:
    """What the broker knows about a message."""
    content, properties = message.content, message.content.properties
    headers = properties.headers or {}
    here = headers.get("x-first-death-queue") == queue.name
    facts = {
        "SenderId": properties.user_id or account.settings.account,
        "SentTimestamp": str(content.enqueued_ms),
        "ApproximateReceiveCount": str(message.deliveries + (0 if here else received_before(headers))),
        "ApproximateFirstReceiveTimestamp": str(message.held.first_delivered_ms or message.received_ms),
    }
    if queue.fifo:
        facts["SequenceNumber"] = sequence_number(message.seq)
    for name, value in (
        ("MessageDeduplicationId", message.dedup_id),
        ("MessageGroupId", message.group),
        ("AWSTraceHeader", message.header(message_attributes.TRACE) or _trace(headers)),
    ):
        if value is not None:
            facts[name] = value
    died_in = _died_in(properties)
    if died_in is not None and not here:
        facts["DeadLetterQueueSourceArn"] = account.settings.arn(died_in)
    return facts


def _trace(headers: dict[str, Any]) -> str | None:
    """The trace that a publisher by another protocol, or by an attribute, put a message into."""
    context = context_of(headers)
    return None if context is None else to_aws(context)


def _died_in(properties: Properties) -> str | None:
    name = (properties.headers or {}).get("x-last-death-queue")
    return name if isinstance(name, str) else None
