"""A message on its way in: options in seconds and words become AMQP properties and the numbers of the core.

It is published to a queue (runtime/queue.py), or here to an exchange; a large body is put away before.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from leveret.core.arguments import TIME_MS_MAX
from leveret.core.deadletter import OWNED
from leveret.core.dedup import DEDUP_HEADER, content_id, digest, fingerprinted
from leveret.core.errors import InvalidArgument, MessageTooLarge, QueueFull
from leveret.core.filters import GROUP_HEADER
from leveret.core.policy import QueuePolicy
from leveret.core.properties import Properties, content, scan_header
from leveret.core.publish import group_key
from leveret.core.tables import MalformedTable
from leveret.observability.propagation import traced
from leveret.runtime.bodies import PERSISTENT_MODE, encode
from leveret.runtime.declare import milliseconds
from leveret.runtime.large_bodies import drop_unused, is_large, put_away
from leveret.runtime.message import ids

if TYPE_CHECKING:
    from leveret.runtime.runtime import Runtime

PRIORITY_MAX = 255
FREE_PROPERTIES = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "message_id",
    "timestamp",
    "type",
    "user_id",
    "app_id",
)
NAME_CHARS_MAX = 1024  # of groups and de-duplication ids: they travel in the header of every message


class IdempotencyKey(str):
    """A de-duplication id that only the same message may repeat."""

    __slots__ = ()


class Outgoing(NamedTuple):
    """One message for send_many with options of its own; they are those of queue.send, times in seconds."""

    body: Any
    priority: int | None = None
    delay: float | None = None
    ttl: float | None = None
    group: str | None = None
    dedup_id: str | None = None
    headers: dict[str, Any] | None = None
    properties: dict[str, Any] | None = None


PLAIN = Outgoing(None)[1:]
"""What stands behind the body of a message that is nothing but that."""


def in_trace(message: Outgoing) -> Outgoing:
    """A message that carries the trace context of the caller."""
    headers = traced(message.headers)
    return message if headers is message.headers else message._replace(headers=headers)


class PreparedMessage(NamedTuple):
    """A message ready for the core, but for the time."""

    properties: Properties
    data: bytes
    priority: int
    delay_ms: int | None
    ttl_ms: int | None
    group: int
    key: bytes | None
    blob: bool = False

    def options(self, now_ms: int) -> dict[str, Any]:
        """What the core is told beside the bytes."""
        return {
            "priority": self.priority,
            "due_ms": 0 if self.delay_ms is None else now_ms + self.delay_ms,
            "expiry_ms": 0 if self.ttl_ms is None else now_ms + max(1, self.ttl_ms),
            "group": self.group,
            "key": self.key,
            "blob": self.blob,
        }

    def wire(self) -> tuple[bytes, int]:
        """Properties and body as on the wire, and the length of the first."""
        return content(self.properties, self.data)


def prepare(message: Outgoing, bytes_max: int, policy: QueuePolicy | None = None) -> PreparedMessage:
    """Check and convert everything that needs no lock; the policy of a single queue says how it de-duplicates."""
    content_type, data = encode(message.body)
    check_size(len(data), bytes_max)
    ttl_ms = None if message.ttl is None else _time("ttl", message.ttl)
    properties = properties_of(message, content_type)
    if properties.headers:
        check_headers(*content(properties, b""))
    return PreparedMessage(
        properties,
        data,
        priority=message.priority or 0,
        delay_ms=None if message.delay is None else _time("delay", message.delay),
        ttl_ms=ttl_ms,
        group=0 if message.group is None else group_key(message.group),
        key=_key(message, data, policy),
    )


def properties_of(message: Outgoing, content_type: str) -> Properties:
    """What a message says about itself on the wire."""
    return Properties(
        headers=_headers(message),
        delivery_mode=PERSISTENT_MODE,
        priority=_priority(message.priority),
        expiration=None if message.ttl is None else str(_time("ttl", message.ttl)),
        **{"content_type": content_type, **_properties(message)},
    )


def _key(message: Outgoing, data: bytes, policy: QueuePolicy | None) -> bytes | None:
    """The de-duplication key, if there is one."""
    scope = message.group if policy is not None and policy.dedup_scope == "group" else None
    if message.dedup_id is not None:
        key = digest(message.dedup_id, scope)
        named = isinstance(message.dedup_id, IdempotencyKey)
        return fingerprinted(key, repr(message[1:5]).encode() + data) if named else key
    if policy is not None and policy.content_dedup:
        return digest(content_id(data), scope)
    return None


def check_size(size_bytes: int, bytes_max: int) -> None:
    """Refuse a body that is too large."""
    if size_bytes > bytes_max:
        raise MessageTooLarge(
            f"the body has {size_bytes} bytes, the limit is {bytes_max}: raise max_message_size, or send a reference"
        )


def check_headers(wire: bytes, header_len: int) -> None:
    """Refuse headers that are over a publisher's limits: a dead letter needs room for its history beside them."""
    try:
        scan_header(wire, header_len)
    except MalformedTable as error:
        raise InvalidArgument(f"too many or too large headers ({error}): put them into the body") from None


def _headers(message: Outgoing) -> dict[str, Any] | None:
    """The headers, with group and de-duplication id, so that every client sees them; only the broker counts deaths."""
    headers = message.headers
    if headers is not None and not isinstance(headers, dict):
        raise InvalidArgument(f"headers are a dict of names and values, not {headers!r}")
    own = {
        header: _name(what, value)
        for header, what, value in (
            (GROUP_HEADER, "group", message.group),
            (DEDUP_HEADER, "dedup_id", message.dedup_id),
        )
        if value is not None
    }
    return {**{name: value for name, value in (headers or {}).items() if name not in OWNED}, **own} or None


def _properties(message: Outgoing) -> dict[str, Any]:
    """Further AMQP properties; those that the other options speak of are not among them."""
    given = message.properties or {}
    unknown = sorted(str(name) for name in given if name not in FREE_PROPERTIES)
    if unknown:
        raise InvalidArgument(f"'{unknown[0]}' is not one of the properties {', '.join(FREE_PROPERTIES)}")
    return given


def _name(what: str, value: Any) -> str:
    """A group or de-duplication id."""
    if not isinstance(value, str) or not 0 < len(value) <= NAME_CHARS_MAX:
        raise InvalidArgument(f"{what} is a string of 1 to {NAME_CHARS_MAX} characters")
    return str(value)


def _priority(priority: Any) -> int | None:
    """A priority; a queue lowers it to its max_priority."""
    if priority is not None and (type(priority) is not int or not 0 <= priority <= PRIORITY_MAX):
        raise InvalidArgument(f"priority is a whole number from 0 to {PRIORITY_MAX}, not {priority!r}")
    return priority


def _time(name: str, seconds: Any) -> int:
    """A bounded time in milliseconds."""
    ms = milliseconds(name, seconds)
    if ms > TIME_MS_MAX:
        raise InvalidArgument(f"{name} is over the limit of {TIME_MS_MAX // 1000} seconds")
    return ms


def publish(runtime: Runtime, vhost: str, exchange: str, routing_key: str, message: Outgoing) -> tuple[int, str | None]:
    """Publish a message; give the commit batch to wait for and the id, None without a route."""
    return _enter(runtime, vhost, exchange, routing_key, prepare(message, runtime.options.message_bytes_max))


async def apublish(runtime: Runtime, vhost: str, exchange: str, routing_key: str, message: Outgoing) -> str | None:
    """Publish a message, and put a large body away in another thread; give its id once it is durable."""
    prepared = prepare(message, runtime.options.message_bytes_max)
    if is_large(runtime, prepared):
        commit_batch, sent = await asyncio.to_thread(_enter, runtime, vhost, exchange, routing_key, prepared)
    else:
        commit_batch, sent = _enter(runtime, vhost, exchange, routing_key, prepared)
    await runtime.wait_async(commit_batch)
    return sent


def _enter(
    runtime: Runtime, vhost: str, exchange: str, routing_key: str, message: PreparedMessage
) -> tuple[int, str | None]:
    """Put a large body away, and hand the message to the core."""
    prepared = put_away(runtime, message)
    properties, data = prepared.properties, prepared.data
    with runtime as core:
        options = prepared.options(core.now_ms)
        try:
            published = core.publish_through(vhost, exchange, routing_key, properties, data, **options)
        finally:
            drop_unused(runtime, prepared)
        commit_batch = runtime.commit()
    if published.refused:
        raise QueueFull(f"a queue behind exchange '{exchange}' is at its limit: let consumers work, or raise it")
    return commit_batch, ids(core.tag, [published.seq])[0]
