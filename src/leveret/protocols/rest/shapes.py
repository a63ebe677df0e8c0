"""Messages as JSON: what comes in becomes an Outgoing, what goes out becomes an object.

    {"payload": {...}}              anything that JSON can say; text is sent as text
    {"payload_base64": "AAEC"}      bytes, as they are

Out, a body is `payload` when it is JSON or text and `payload_base64` when it is neither, or when the receiver asked
for it. AMQP's properties are `attributes`, its headers are `headers`, with values as core/jsonable.py tags them.
"""

import base64
import binascii
import json
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any

from leveret.clock import iso_second
from leveret.core.arguments import TIME_MS_MAX
from leveret.core.errors import InvalidArgument
from leveret.core.jsonable import decode_table, encode
from leveret.core.properties import Properties
from leveret.core.tracing import TRACEPARENT, TRACESTATE
from leveret.observability.trace_context import parse
from leveret.protocols.http.fields import (
    OBJECT,
    TEXT,
    WHOLE,
    JsonField,
    Number,
    RecordField,
    Schema,
    TableField,
    Text,
    Whole,
    read_json,
    shape,
)
from leveret.protocols.http.idempotency import KEY_HEADER
from leveret.protocols.http.request import Request
from leveret.runtime.bodies import JSON_TYPE
from leveret.runtime.message import Message, Peeked
from leveret.runtime.outgoing import NAME_CHARS_MAX, IdempotencyKey, Outgoing
from leveret.runtime.queue import RuntimeQueue

PRIORITY_MAX = 10
SECONDS_MAX = TIME_MS_MAX // 1000
HEADERS_MAX = 256
SHORT_CHARS_MAX = 255
BODY_CHARS_MAX = 1 << 30
BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"  # see decode_base64

ATTRIBUTES = {
    "contentType": "content_type",
    "contentEncoding": "content_encoding",
    "correlationId": "correlation_id",
    "replyTo": "reply_to",
    "messageId": "message_id",
    "timestamp": "timestamp",
    "type": "type",
    "userId": "user_id",
    "appId": "app_id",
}

_attributes = attrgetter(*ATTRIBUTES.values())

_attribute_fields: dict[str, JsonField] = {
    name: Text(f"AMQP's {attribute}.", SHORT_CHARS_MAX) for name, attribute in ATTRIBUTES.items()
}
_attribute_fields["timestamp"] = Whole("AMQP's timestamp: seconds since 1970.", 0, (1 << 63) - 1)

MESSAGE_FIELDS: dict[str, JsonField] = {
    "payload": JsonField("The body: anything that JSON can say."),
    "payload_base64": Text("The body as bytes, in place of payload.", BODY_CHARS_MAX, pattern=BASE64),
    "priority": Whole("Higher ones are received first.", 1, PRIORITY_MAX),
    "delay_seconds": Number("How long it cannot be received; default: as the queue says.", 0, SECONDS_MAX),
    "ttl_seconds": Number("After this time it expires.", 0, SECONDS_MAX),
    "group_id": Text("Messages of a group are received one after the other.", NAME_CHARS_MAX, 1),
    "idempotency_key": Text(
        "As the header Idempotency-Key, which it replaces; what else the message has is not compared.",
        NAME_CHARS_MAX,
        1,
    ),
    "attributes": RecordField("Properties of AMQP.", _attribute_fields),
    "headers": TableField("Names and values of your own.", HEADERS_MAX),
}
BODIES = ("payload", "payload_base64")
MESSAGE = RecordField("A message.", MESSAGE_FIELDS, BODIES)


def outgoing(body: dict[str, Any], key: str | None, context: dict[str, str] | None = None) -> Outgoing:
    """A message to be sent; key and trace context are of the request and count when the message has none of its own."""
    headers = decode_table("headers", body["headers"]) if body.get("headers") else None
    if context is not None and (headers is None or TRACEPARENT not in headers):
        headers = {**(headers or {}), **context}
    properties = properties_of(body)
    return Outgoing(
        body_of(body, properties),
        body.get("priority"),
        body.get("delay_seconds"),
        body.get("ttl_seconds"),
        body.get("group_id"),
        body.get("idempotency_key", key),
        headers,
        properties,
    )


def properties_of(body: dict[str, Any]) -> dict[str, Any] | None:
    """The properties of AMQP that a message has, if it has any."""
    attributes = body.get("attributes")
    return {ATTRIBUTES[name]: value for name, value in attributes.items()} if attributes else None


def body_of(body: dict[str, Any], properties: dict[str, Any] | None) -> Any:
    """What is sent, of the two ways to say it."""
    encoded = body.get("payload_base64")
    if encoded is None:
        payload = body["payload"]
        if isinstance(payload, str) and properties and _is_json(properties.get("content_type")):
            return json.dumps(payload).encode()
        return payload
    try:
        return decode_base64(encoded)
    except ValueError:
        raise InvalidArgument("payload_base64 is not base64: encode the bytes") from None


def decode_base64(text: str) -> bytes:
    """The bytes of a text that BASE64 matches; strict mode alone allows padding that is not needed."""
    if len(text) % 4 or text.endswith("==="):
        raise ValueError("wrong padding")
    return binascii.a2b_base64(text, strict_mode=True)


def idempotency_key(request: Request, queue: RuntimeQueue | None = None) -> str | None:
    """What makes a repeated request the same one; where equal bodies are the same message, the body does."""
    if KEY_HEADER not in request.headers or (queue is not None and queue.anyway.policy.content_dedup):
        return None
    key = request.header(KEY_HEADER)
    if not 0 < len(key) <= NAME_CHARS_MAX:
        raise InvalidArgument(f"the header Idempotency-Key has 1 to {NAME_CHARS_MAX} characters")
    return key if queue is None else IdempotencyKey(key)


def trace_context(request: Request) -> dict[str, str] | None:
    """The headers of a message that carry on the trace of a request; None when that is in none."""
    if b"traceparent" not in request.headers:
        return None
    found = parse(request.header(b"traceparent"), request.header(b"tracestate"))
    if found is None:
        return None
    headers: dict[str, str] = {TRACEPARENT: found.traceparent}
    return {**headers, TRACESTATE: found.state} if found.state else headers


def peeked(message: Peeked, raw: bool = False) -> dict[str, Any]:
    """A message that was looked at or taken."""
    properties = message.properties
    shown: dict[str, Any] = {
        "message_id": message.id,
        "priority": message.priority,
        **payload(message.data, properties.content_type, raw),
        "enqueued_at": iso(message.enqueued_at),
        "receive_count": message.deliveries,
    }
    attributes = attributes_of(properties)
    headers = properties.headers
    if attributes:
        shown["attributes"] = attributes
    if headers:
        found = {"headers": encode(message.headers), "group_id": message.group, "idempotency_key": message.dedup_id}
        shown |= {name: value for name, value in found.items() if value}
    if properties.expiration is not None:
        shown["ttl_seconds"] = _seconds(properties.expiration)
    if message.exchange:
        shown["exchange"] = message.exchange
    shown["routing_key"] = message.routing_key
    return shown


def attributes_of(properties: Properties) -> dict[str, Any]:
    """The properties of AMQP that are there."""
    values = zip(ATTRIBUTES, _attributes(properties), strict=True)
    return {name: value for name, value in values if value is not None}


def looked_at(message: Peeked, raw: bool = False) -> dict[str, Any]:
    """A message that was looked at."""
    due_at = message.due_at
    return {**peeked(message, raw), "state": message.state, "due_at": None if due_at is None else iso(due_at)}


def taken(message: Message, raw: bool = False) -> dict[str, Any]:
    """A message that was taken."""
    until = message.visible_until
    return {
        **peeked(message, raw),
        "receipt_handle": message.receipt,
        "received_at": iso(message.received_at),
        "visible_until": None if until is None else iso(until),
    }


def payload(data: bytes, content_type: str | None, raw: bool) -> dict[str, Any]:
    """A body: as JSON or text if it is that."""
    if not raw:
        try:
            if _is_json(content_type):
                return {"payload": read_json(data)}
            if content_type is not None and content_type != "application/octet-stream":
                return {"payload": data.decode()}
        except ValueError:
            pass  # it is not what its content type says
    return {"payload_base64": base64.b64encode(data).decode()}


def _is_json(content_type: str | None) -> bool:
    return content_type is not None and content_type.partition(";")[0].strip().lower() == JSON_TYPE


def _seconds(expiration: str) -> float | None:
    """AMQP's time to live in seconds; other clients may have written anything."""
    return int(expiration) / 1000 if expiration.isascii() and expiration.isdigit() else None


def iso(when: datetime) -> str:
    """A time as text."""
    return iso_ms(round(when.timestamp() * 1000))


def iso_ms(when_ms: int) -> str:
    """A time as text: 2025-11-15T10:30:00.000Z."""
    second, ms = divmod(when_ms, 1000)
    return f"{_second(second)}.{ms:03d}Z"


_second = lru_cache(maxsize=10_000)(iso_second)

_TIME: Schema = {"type": "string", "format": "date-time"}
_TIME_OR_NULL: Schema = {"type": ["string", "null"], "format": "date-time"}
BYTES: Schema = {"type": "string", "contentEncoding": "base64"}
_ALWAYS = "message_id priority enqueued_at receive_count routing_key"
_SHOWN: dict[str, Schema] = {
    "message_id": TEXT,
    "priority": {"type": "integer", "description": "0 when it was sent without one."},
    "payload": {},
    "payload_base64": BYTES,
    "enqueued_at": _TIME,
    "receive_count": WHOLE,
    "attributes": OBJECT,
    "headers": OBJECT,
    "group_id": TEXT,
    "idempotency_key": TEXT,
    "ttl_seconds": {"type": ["number", "null"]},
    "exchange": TEXT,
    "routing_key": TEXT,
}
TAKEN = shape(_ALWAYS, **_SHOWN, receipt_handle=TEXT, received_at=_TIME, visible_until=_TIME_OR_NULL)
LOOKED_AT = shape(_ALWAYS, **_SHOWN, state=TEXT, due_at=_TIME_OR_NULL)
ENQUEUED = shape(
    "message_id queue_name priority enqueued_at visible_at",
    message_id=TEXT,
    queue_name=TEXT,
    priority=WHOLE,
    enqueued_at=_TIME,
    visible_at=_TIME,
    notice=TEXT,
)
