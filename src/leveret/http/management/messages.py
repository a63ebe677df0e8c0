"""Single messages for people who look into a queue: published to an exchange, taken from a queue, moved to another."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

from leveret.core import browse
from leveret.core.arguments import TIME_MS_MAX
from leveret.core.broker import Broker, Published
from leveret.core.deadletter import all_keys, without_client_deaths
from leveret.core.errors import MessageTooLarge, PreconditionFailed
from leveret.core.filters import BLOB, Filter
from leveret.core.held import Held
from leveret.core.message import Message
from leveret.core.properties import Properties, content
from leveret.core.queue import Queue
from leveret.core.queue_types import check_get
from leveret.embedded.outgoing import Prepared, check_headers, check_size
from leveret.embedded.redrive import Redrive, RedriveResult
from leveret.http.management.bindings import find_exchange
from leveret.http.management.call import Call
from leveret.http.management.refusals import BadRequest, answer
from leveret.http.management.values import PROPERTIES, properties
from leveret.http.router import Answer

COUNT_MAX = 10_000  # messages that one request takes
TAKEN_BYTES_MAX = 16 << 20  # of their bodies: the answer is in memory as a whole
SHORT_BYTES_MAX = 255
PRIORITY_MAX = 255
NUMBERS = {"priority": PRIORITY_MAX, "delivery_mode": 2, "timestamp": 2**63 - 1}
PERSISTENT = 2
ENCODINGS = ("auto", "base64")


# Publishing


def publish(call: Call) -> Answer | Awaitable[Answer]:
    """Publish a message; say whether a queue has it, when it is durable."""
    call.need("payload", "payload_encoding", "properties", "routing_key")
    key = call.field("routing_key", str)
    prepared = _prepared(call)
    broker = call.site.desk.broker
    if broker.is_large(prepared):
        return _publish_large(call, key, prepared)
    return call.change(lambda core: _routed(_send(call, core, key, prepared)))


async def _publish_large(call: Call, key: str, prepared: Prepared) -> Answer:
    """Put the body away first, in another thread."""
    desk = call.site.desk
    with desk.guard as core:
        _check_publish(call, core, key, prepared)
    away = await desk.elsewhere(lambda: desk.broker.put_away(prepared))
    answered = call.change(lambda core: _routed(_send(call, core, key, away)))
    return await answered if isinstance(answered, Awaitable) else answered


def _check_publish(call: Call, core: Broker, key: str, prepared: Prepared) -> None:
    """Refuse who may not publish so."""
    exchange = find_exchange(call.home(core), call.named_exchange())
    for each in all_keys(prepared.properties, key) if prepared.properties.headers else [key]:
        call.authorize("basic.publish", {"exchange": exchange.name}, each if exchange.type == "topic" else None)


def _send(call: Call, core: Broker, key: str, prepared: Prepared) -> Published:
    """Hand a message to the core; under the lock."""
    try:
        _check_publish(call, core, key, prepared)
        options = prepared.options(core.now_ms)
        persistent = prepared.properties.delivery_mode == PERSISTENT
        exchange = call.named_exchange()
        return core.publish_through(
            call.named("vhost"), exchange, key, prepared.properties, prepared.data, persistent=persistent, **options
        )
    finally:
        call.site.desk.broker.drop_unused(prepared)


def _routed(published: Published) -> Answer:
    return answer({"routed": published.routed and not published.refused})


def _prepared(call: Call) -> Prepared:
    """The message that a body describes."""
    data = _payload(call)
    check_size(len(data), call.site.desk.broker.options.message_bytes_max)
    found = without_client_deaths(_properties(call))
    if found.user_id not in (None, call.user):
        raise PreconditionFailed(f"user_id property set to '{found.user_id}' but authenticated user was '{call.user}'")
    check_headers(*content(found, b""))
    ttl_ms = None if found.expiration is None else _expiration_ms(found.expiration)
    return Prepared(found, data, found.priority or 0, 0, ttl_ms, 0, None)


def _payload(call: Call) -> bytes:
    """The body of a message, as text or in base64."""
    text, encoding = call.field("payload", str), call.field("payload_encoding", str)
    try:
        if encoding == "base64":
            return b64decode(text, validate=True)
        if encoding == "string":
            return text.encode()
    except (binascii.Error, ValueError):
        raise BadRequest("the payload is not what payload_encoding says: send text or base64") from None
    raise BadRequest(f"payload_encoding is string or base64, not {encoding!r}")


def _properties(call: Call) -> Properties:
    """The properties; those that AMQP does not have are left out, as RabbitMQ does."""
    given = call.body["properties"]
    if given == []:  # what languages with one type for both call an empty object
        given = {}
    if not isinstance(given, dict):
        raise BadRequest("properties are an object of names and values")
    return Properties(**{name: _property(name, given[name]) for name in PROPERTIES if name in given})


def _property(name: str, value: Any) -> Any:
    """One property, of the type that AMQP has for it."""
    if name == "headers":
        if not isinstance(value, dict):
            raise BadRequest("headers are an object of names and values")
        return value
    if name in NUMBERS:
        if type(value) is not int or not 0 <= value <= NUMBERS[name]:
            raise BadRequest(f"{name} is a whole number from 0 to {NUMBERS[name]}")
        return value
    if not isinstance(value, str) or len(value.encode("utf-8", "replace")) > SHORT_BYTES_MAX:
        raise BadRequest(f"{name} is text of at most {SHORT_BYTES_MAX} bytes")
    return value


def _expiration_ms(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) <= TIME_MS_MAX):
        raise BadRequest(f"expiration is a number of milliseconds as text, at most {TIME_MS_MAX}")
    return int(text)


# Taking


class Taken(NamedTuple):
    """A message that was taken, and how many were left behind it."""

    message: Message
    redelivered: bool
    left: int


def _requeue(core: Broker, queue: Queue, held: Held) -> None:
    core.nack(queue, held, held.lease, 0)


def _reject(core: Broker, queue: Queue, held: Held) -> None:
    queue.reject(held, held.lease)


def _ack(core: Broker, queue: Queue, held: Held) -> None:
    queue.ack(held, held.lease)


ENDS: dict[str, Callable[[Broker, Queue, Held], None]] = {
    "ack_requeue_true": _requeue,
    "reject_requeue_true": _requeue,
    "ack_requeue_false": _ack,
    "reject_requeue_false": _reject,
}


def get(call: Call) -> Answer | Awaitable[Answer]:
    """Take messages and give them back, settle or reject them, as ackmode says."""
    call.need("ackmode", "count", "encoding")
    count, mode, encoding = call.field("count", int), call.field("ackmode", str), call.field("encoding", str)
    if not 0 <= count <= COUNT_MAX:
        raise BadRequest(f"count is from 0 to {COUNT_MAX}: take the others by a client")
    if mode not in ENDS:
        raise BadRequest(f"ackmode is one of {', '.join(ENDS)}, not {mode!r}")
    if encoding not in ENCODINGS:
        raise BadRequest("Unsupported encoding. Please use auto or base64.")
    truncate = call.field("truncate", int) if "truncate" in call.body else None
    if truncate is not None and truncate < 0:
        raise BadRequest("truncate is a number of bytes")

    def take(core: Broker) -> list[Taken]:
        queue = call.queue(core)
        call.authorize("basic.get", {"queue": queue.name})
        core.check_owner(queue, None)
        check_get(queue)
        return _take(core, queue, count, ENDS[mode])

    return _told(call, take, encoding, truncate)


def _take(core: Broker, queue: Queue, count: int, end: Callable[[Broker, Queue, Held], None]) -> list[Taken]:
    """Take some messages, at most so many bytes, and end each of them in one way; under the lock."""
    taken: list[Taken] = []
    leases: list[Held] = []
    size_bytes = 0
    while len(leases) < count and size_bytes < TAKEN_BYTES_MAX:
        found = queue.take(1)
        if not found:
            break
        held = found[0]
        leases.append(held)
        message = browse.read(held)
        size_bytes += len(message.body)
        taken.append(Taken(message, held.deliveries > 1, queue.depth))
    for held in leases:  # only now: what is given back would be the next one to be taken
        end(core, queue, held)
    return taken


async def _told(call: Call, take: Callable[[Broker], list[Taken]], encoding: str, truncate: int | None) -> Answer:
    """What was taken, when that is durable; large bodies are fetched in another thread."""
    desk = call.site.desk
    changed = desk.change(take)
    taken = await changed if isinstance(changed, Awaitable) else changed
    rows, size_bytes = [], 0
    for each in taken:
        body = each.message.body
        if each.message.flags & BLOB:
            body = await desk.elsewhere(partial(desk.broker.fetch, body))
        size_bytes += len(body)
        if size_bytes > 4 * TAKEN_BYTES_MAX:
            raise MessageTooLarge("the messages are too large for one answer: ask for fewer")
        rows.append(_row(each, body, encoding, truncate))
    return answer(rows)


def _row(taken: Taken, body: bytes, encoding: str, truncate: int | None) -> dict[str, Any]:
    """A message that was taken."""
    message, shown = taken.message, body if truncate is None else body[:truncate]
    text, used = _encoded(shown, encoding)
    return {
        "payload_bytes": len(body),
        "redelivered": taken.redelivered,
        "exchange": message.exchange,
        "routing_key": message.routing_key.encode("utf-8", "replace").decode(),
        "message_count": taken.left,
        "properties": properties(message.properties),
        "payload": text,
        "payload_encoding": used,
    }


def _encoded(data: bytes, encoding: str) -> tuple[str, str]:
    """Text if it is some and nobody wants base64."""
    if encoding == "auto":
        try:
            return data.decode(), "string"
        except UnicodeDecodeError:
            pass
    return b64encode(data).decode(), "base64"


# Moving


def move(call: Call) -> Answer | Awaitable[Answer]:
    """Move what waits to another queue, or each message to where it died first."""
    to = call.field("destination", str) if "destination" in call.body else None
    limit = call.field("limit", int) if "limit" in call.body else None
    if limit is not None and limit < 1:
        raise BadRequest("limit is a number of messages, at least 1")
    desk = call.site.desk
    with desk.guard as core:
        queue = call.queue(core)
        call.authorize("basic.get", {"queue": queue.name})
        call.authorize("basic.publish", {"exchange": ""})
        core.check_owner(queue, None)
        if to is not None:
            core.check_owner(call.home(core).queue(to), None)
    redrive = Redrive(desk.guard, queue, to, Filter(), limit, None, False)
    return _moved(desk.elsewhere(lambda: redrive.run(None)))


async def _moved(running: Awaitable[RedriveResult]) -> Answer:
    result = await running
    return answer({"matched": result.matched, "moved": result.moved, "skipped": result.skipped})
