"""SendMessage and SendMessageBatch: what a client says of a message, checked, as the core takes it."""

import re
from functools import partial
from typing import Any, NamedTuple

from leveret.core.dedup import content_id
from leveret.core.dedup import digest as dedup_key
from leveret.core.errors import LeveretError
from leveret.core.ids import format_id
from leveret.core.properties import Properties, content, encode_header
from leveret.core.publish import group_key
from leveret.core.tracing import TRACEPARENT
from leveret.observability.trace_context import from_aws, is_aws
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Response
from leveret.protocols.sqs import message_attributes
from leveret.protocols.sqs.batch import batch_entries, batch_result, failed_entry
from leveret.protocols.sqs.errors import BAD_CHARACTERS, SqsError, invalid
from leveret.protocols.sqs.loops import bodies, is_forbidden, md5_of, sent, sent_json
from leveret.protocols.sqs.message_attributes import Value, Values
from leveret.protocols.sqs.queues import SqsQueue
from leveret.protocols.sqs.wire import Answer, Parameters, SqsCall, number
from leveret.runtime.bodies import PERSISTENT_MODE, TEXT_TYPE
from leveret.runtime.message import DEDUP, GROUP
from leveret.runtime.outgoing import PreparedMessage, check_headers

MESSAGE_BYTES_MAX = 1_048_576
DELAY_S_MAX = 900
SEQUENCE_BASE = 10**19  # so that sequence numbers have the twenty digits of Amazon's
TTL_CHARS_MAX = 10
TRACE_HEADER = "AWSTraceHeader"
TRACE_ID = b"x-amzn-trace-id"
NO_VALUES: Values = {}
NO_DEDUPLICATION = (
    "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
)
OPTIONS = frozenset(
    ("DelaySeconds", "MessageAttributes", "MessageSystemAttributes", "MessageGroupId", "MessageDeduplicationId")
)
"""What can be said about a message beside its body."""

_NAME = re.compile(r"[A-Za-z0-9!\"#$%&'()*+,./:;<=>?@\[\\\]^_`{|}~-]{1,128}")


class MessageDraft(NamedTuple):
    """A message that is ready to be sent, and what its sender is told about it."""

    prepared: PreparedMessage
    size_bytes: int
    body_md5: str
    attributes_md5: str | None
    system_md5: str | None
    plain: bool = False
    """Whether it is nothing but a body."""

    def answer(self, message_id: str, sequence: str | None) -> dict[str, str]:
        told = {"MessageId": message_id, "MD5OfMessageBody": self.body_md5}
        if self.attributes_md5 is not None:
            told["MD5OfMessageAttributes"] = self.attributes_md5
        if self.system_md5 is not None:
            told["MD5OfMessageSystemAttributes"] = self.system_md5
        if sequence is not None:
            told["SequenceNumber"] = sequence
        return told


def draft(queue: SqsQueue, given: Parameters, sender: str | None, traced: Values) -> MessageDraft:
    """Check what is to be sent to a queue; `traced` is the trace of the request, if it has one."""
    data = _body(given)
    if OPTIONS.isdisjoint(given) and not queue.fifo and not traced:
        return _plain(queue, data, sender)
    values = message_attributes.read_attributes(given.get("MessageAttributes") or {})
    size = len(data) + (message_attributes.size_bytes(values) if values else 0)
    _check_size(queue, size)
    trace = _trace(given.get("MessageSystemAttributes") or {})
    group, dedup_id = _group(queue, given), _name(given, "MessageDeduplicationId")
    if queue.fifo:
        dedup_id, key = _dedup(queue, data, group, dedup_id)
    elif dedup_id is not None:
        raise invalid(
            f"Value {dedup_id} for parameter MessageDeduplicationId is invalid. Reason: The request include parameter "
            "that is not valid for this queue type."
        )
    else:
        key = None
    properties = _properties(values, trace or traced, group, dedup_id, sender)
    prepared = PreparedMessage(
        properties,
        data,
        priority=min(properties.priority or 0, 255),
        delay_ms=_delay_ms(queue, given),
        ttl_ms=_ttl_ms(properties),
        group=0 if group is None else group_key(group),
        key=key,
    )
    return MessageDraft(
        prepared,
        size,
        md5_of(data),
        message_attributes.digest(values) if values else None,
        message_attributes.digest(trace) if trace else None,
    )


def _body(given: Parameters) -> bytes:
    body: str | None = given.get("MessageBody")
    if not body:
        raise SqsError("MissingParameter", name="MessageBody")
    if is_forbidden(body):
        raise SqsError("InvalidMessageContents", BAD_CHARACTERS)
    return body.encode()


def bytes_max(queue: SqsQueue) -> int:
    """The largest message that a queue takes."""
    return queue.core.policy.max_message_bytes or MESSAGE_BYTES_MAX


def _check_size(queue: SqsQueue, size_bytes: int) -> None:
    most = bytes_max(queue)
    if size_bytes > most:
        raise invalid(f"One or more parameters are invalid. Reason: Message must be shorter than {most} bytes.")


def _plain(queue: SqsQueue, data: bytes, sender: str | None) -> MessageDraft:
    _check_size(queue, len(data))
    prepared = PreparedMessage(plain_parts(sender)[0], data, 0, None, None, 0, None)
    return MessageDraft(prepared, len(data), md5_of(data), None, None, plain=True)


def trace_of(request: Request) -> Values:
    """The trace that a request is a part of, by the header of X-Ray; nothing when it names none."""
    header = request.headers.get(TRACE_ID)
    if header is None:
        return NO_VALUES
    text = header.decode("latin-1")
    return {TRACE_HEADER: Value("String", text)} if is_aws(text) else NO_VALUES


def _trace(given: dict[str, Any]) -> Values:
    """The one system attribute that can be sent."""
    for name in given:
        if name != TRACE_HEADER:
            raise invalid(f"Message system attribute name '{name}' is invalid.")
    return {name: message_attributes.read_value(name, value) for name, value in given.items()}


def _name(given: Parameters, name: str) -> str | None:
    value: str | None = given.get(name)
    if value is not None and not _NAME.fullmatch(value):
        raise invalid(
            f"Value {value[:200]} for parameter {name} is invalid. Reason: {name} can only include alphanumeric and "
            "punctuation characters. 1 to 128 in length."
        )
    return value


def _group(queue: SqsQueue, given: Parameters) -> str | None:
    group = _name(given, "MessageGroupId")
    if group is None and queue.fifo:
        raise SqsError("MissingParameter", name="MessageGroupId")
    return group


def check_fifo_batch(queue: SqsQueue, entries: list[Parameters]) -> None:
    """Refuse a batch for a FIFO queue with an entry that lacks a group or a de-duplication id: AWS sends none of it."""
    for entry in entries:
        if entry.get("MessageGroupId") is None:
            raise invalid("The request must contain the parameter MessageGroupId.")
        if entry.get("MessageDeduplicationId") is None and not queue.core.policy.content_dedup:
            raise invalid(NO_DEDUPLICATION)


def size_of_refused(entry: Parameters) -> int:
    """The bytes that an entry counts in its batch although it is refused: its body and what its attributes say."""
    given = entry.get("MessageAttributes") or {}
    fields = [field for value in given.values() if isinstance(value, dict) for field in value.items()]
    parts = [entry.get("MessageBody"), *given, *(part for name, part in fields if name != "BinaryValue")]
    text = sum(len(part.encode("utf-8", "surrogatepass")) for part in parts if isinstance(part, str))
    return text + sum(len(part) * 3 // 4 for name, part in fields if name == "BinaryValue" and isinstance(part, str))


def _dedup(queue: SqsQueue, data: bytes, group: str | None, given: str | None) -> tuple[str, bytes]:
    """What a message is known by, and the key of that in the core; a purge makes all keys new."""
    policy = queue.core.policy
    scope = group if policy.dedup_scope == "group" else None
    purges = f"\0{purges}" if (purges := queue.details["purges"]) else ""
    if given is None and not policy.content_dedup:
        raise invalid(NO_DEDUPLICATION)
    known = content_id(data) if given is None else given
    return known, dedup_key(known + purges, scope)


def _delay_ms(queue: SqsQueue, given: Parameters) -> int | None:
    """The delay of this message; None: that of the queue."""
    delay_s = given.get("DelaySeconds")
    if delay_s is None:
        return None
    if queue.fifo and delay_s != 0:
        raise invalid(
            f"Value {delay_s} for parameter DelaySeconds is invalid. Reason: The request include parameter that is not "
            "valid for this queue type."
        )
    number(given, "DelaySeconds", DELAY_S_MAX)
    # On a FIFO queue the delay is the queue's business; 0 says nothing there.
    return None if queue.fifo else delay_s * 1000


def _ttl_ms(properties: Properties) -> int | None:
    """How long it lives, if its sender asked for that in AMQP's way."""
    text = properties.expiration
    if text is None:
        return None
    if not text.isdecimal() or len(text) > TTL_CHARS_MAX:
        raise invalid("The message attribute 'amqp.expiration' is a number of milliseconds.")
    return int(text)


PLAIN_MAX = 10_000  # senders whose properties are kept
FLAGS_AT = 12  # of a content header: what comes before it is its class and the size of the body
_PLAIN: dict[str | None, tuple[Properties, bytes]] = {}
PLAIN_SENDERS: dict[bytes, str | None] = {}
"""The content headers, from their flags on, of messages that are nothing but a body, and who sends such."""


def plain_parts(sender: str | None) -> tuple[Properties, bytes]:
    """The properties of a message that is nothing but a body, and the same as a content header."""
    found = _PLAIN.get(sender)
    if found is None:
        if len(_PLAIN) >= PLAIN_MAX:
            _PLAIN.clear()
            PLAIN_SENDERS.clear()
        properties = Properties(content_type=TEXT_TYPE, delivery_mode=PERSISTENT_MODE, user_id=sender)
        found = _PLAIN[sender] = (properties, encode_header(properties, 0))
        PLAIN_SENDERS[found[1][FLAGS_AT:]] = sender
    return found


def _properties(
    values: Values, trace: Values, group: str | None, dedup_id: str | None, sender: str | None
) -> Properties:
    if not (values or trace or group or dedup_id):
        return plain_parts(sender)[0]
    headers: dict[str, Any] = {}
    properties = Properties(content_type=TEXT_TYPE, delivery_mode=PERSISTENT_MODE, user_id=sender)
    message_attributes.store(values, headers, properties)
    if group is not None:
        headers[GROUP] = group
    if dedup_id is not None:
        headers[DEDUP] = dedup_id
    if trace:
        _store_trace(trace[TRACE_HEADER].value, headers)
    properties.headers = headers or None
    if values:
        check_headers(*content(properties, b""))
    return properties


def _store_trace(given: str | bytes, headers: dict[str, Any]) -> None:
    """Keep a trace header as it came, and for the other protocols in their own form."""
    headers[message_attributes.TRACE] = given
    context = from_aws(given) if isinstance(given, str) else None
    if context is not None and TRACEPARENT not in headers:
        headers[TRACEPARENT] = context.traceparent
        types = headers.setdefault(message_attributes.TYPES, {})
        types[TRACEPARENT] = message_attributes.NO_ATTRIBUTE


def sequence_number(seq: int) -> str:
    """The place of a message among all others."""
    return str(SEQUENCE_BASE + seq)


def told(call: SqsCall, queue: SqsQueue, one: MessageDraft, seq: int) -> dict[str, str]:
    """What the sender of a message is told."""
    if seq == 0:
        raise _full(queue)
    return one.answer(format_id(call.account.tag, seq), sequence_number(seq) if queue.fifo else None)


def _full(queue: SqsQueue) -> SqsError:
    return SqsError("OverLimit", f"The queue {queue.name} is full.")


def check_alarm(call: SqsCall) -> None:
    """Refuse what would make a shortage worse."""
    if call.account.alarm is not None:
        raise SqsError("ServiceUnavailable", f"The server is short of {call.account.alarm}: try again later.")


def send_message(call: SqsCall, queue: SqsQueue) -> Answer:
    """Put a message into a queue."""
    check_alarm(call)
    one = draft(queue, call.parameters, call.caller.user, trace_of(call.request))
    done = _post(call, queue, [one])
    if done is None:
        return _send_large(call, queue, one)
    commit_batch, numbers = done
    return call.durable(commit_batch, told(call, queue, one, numbers[0]))


def _post(call: SqsCall, queue: SqsQueue, drafts: list[MessageDraft]) -> tuple[int, list[int]] | None:
    """Send without waiting: the commit batch to wait for, and the numbers of the messages; None when one of them is
    large.
    """
    data = [one.prepared.data for one in drafts if one.plain]
    if len(data) == len(drafts):
        done = queue.handle.post_bodies(plain_parts(call.caller.user)[1], data)
        if done is not None:
            return done
    return queue.handle.post_prepared([one.prepared for one in drafts])


async def _send_large(call: SqsCall, queue: SqsQueue, one: MessageDraft) -> Response:
    numbers = await call.account.async_broker.in_thread(partial(queue.handle.send_prepared, [one.prepared]))
    return call.answer(told(call, queue, one, numbers[0]))


def send_message_batch(call: SqsCall, queue: SqsQueue) -> Answer:
    """Put up to ten messages into a queue, by one commit."""
    check_alarm(call)
    given = batch_entries(call)
    return _send_plain_batch(call, queue, given) or _send_any_batch(call, queue, given)


def _send_plain_batch(call: SqsCall, queue: SqsQueue, given: list[Parameters]) -> Answer | None:
    """The short way of small messages that are nothing but bodies; None when one of them is not."""
    special = queue.fifo or TRACE_ID in call.request.headers
    data = None if special else bodies(given, OPTIONS, bytes_max(queue), MESSAGE_BYTES_MAX)
    done = None if data is None else queue.handle.post_bodies(plain_parts(call.caller.user)[1], data)
    if data is None or done is None:
        return None
    commit_batch, numbers = done
    text = sent_json(given, data, call.account.tag, numbers) if call.in_json else None
    if text is not None:
        return call.account.async_broker.when_durable(commit_batch, call.answer_text(text))
    refused = [failed_entry(entry, _full(queue)) for entry, seq in zip(given, numbers, strict=True) if not seq]
    return call.durable(commit_batch, batch_result(sent(given, data, call.account.tag, numbers), refused))


def _send_any_batch(call: SqsCall, queue: SqsQueue, given: list[Parameters]) -> Answer:
    if queue.fifo:
        check_fifo_batch(queue, given)
    good: list[tuple[Parameters, MessageDraft]] = []
    refused: list[dict[str, Any]] = []
    size, traced = 0, trace_of(call.request)
    for entry in given:
        try:
            one = draft(queue, entry, call.caller.user, traced)
            good.append((entry, one))
            size += one.size_bytes
        except LeveretError as error:
            refused.append(failed_entry(entry, error))
            size += size_of_refused(entry)
    if size > MESSAGE_BYTES_MAX:
        raise SqsError("BatchRequestTooLong", most=MESSAGE_BYTES_MAX, size=size)
    done = _post(call, queue, [one for _, one in good])
    if done is None:
        return _send_large_batch(call, queue, good, refused)
    commit_batch, numbers = done
    return call.durable(commit_batch, _outcomes(call, queue, good, numbers, refused))


async def _send_large_batch(
    call: SqsCall, queue: SqsQueue, good: list[tuple[Parameters, MessageDraft]], refused: list[dict[str, Any]]
) -> Response:
    prepared = [one.prepared for _, one in good]
    numbers = await call.account.async_broker.in_thread(partial(queue.handle.send_prepared, prepared))
    return call.answer(_outcomes(call, queue, good, numbers, refused))


def _outcomes(
    call: SqsCall,
    queue: SqsQueue,
    good: list[tuple[Parameters, MessageDraft]],
    numbers: list[int],
    refused: list[dict[str, Any]],
) -> dict[str, Any]:
    successful = []
    for (entry, one), seq in zip(good, numbers, strict=True):
        try:
            successful.append({"Id": entry["Id"], **told(call, queue, one, seq)})
        except SqsError as error:
            refused.append(failed_entry(entry, error))
    return batch_result(successful, refused)
