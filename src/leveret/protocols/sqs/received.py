"""A message on its way out: what ReceiveMessage tells about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from leveret.core.deadletter import received_before
from leveret.core.properties import Properties
from leveret.embedded.message import Message
from leveret.observability.trace_context import context_of, to_aws
from leveret.protocols.sqs import message_attributes
from leveret.protocols.sqs.drafts import FLAGS_AT, PLAIN_SENDERS
from leveret.protocols.sqs.loops import is_forbidden, received
from leveret.protocols.sqs.message_attributes import Value
from leveret.protocols.sqs.queues import SqsQueue

if TYPE_CHECKING:
    from leveret.protocols.sqs.account import Account

SEQUENCE_BASE = 10**19  # so that sequence numbers have the twenty digits of Amazon's
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


def sequence_number(seq: int) -> str:
    """The place of a message among all others."""
    return str(SEQUENCE_BASE + seq)


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
    """Whether a body can be told as it is."""
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
    """The queue that a dead letter came from."""
    name = (properties.headers or {}).get("x-last-death-queue")
    return name if isinstance(name, str) else None
