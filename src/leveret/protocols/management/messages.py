"""Messages by the management API: published to exchanges, taken from queues, moved; those that are unacked, and those
that are not due yet.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from heapq import nsmallest
from operator import attrgetter
from typing import Any, NamedTuple

from leveret.core import browse
from leveret.core.arguments import TIME_MS_MAX
from leveret.core.broker import Broker, Published
from leveret.core.deadletter import all_keys, without_client_deaths
from leveret.core.errors import InvalidReceipt, JournalError
from leveret.core.filters import BLOB, Filter
from leveret.core.held import Held
from leveret.core.ids import format_id
from leveret.core.jsonable import plain
from leveret.core.message import Message
from leveret.core.properties import Properties, content
from leveret.core.queue import Queue
from leveret.core.queue_types import check_get
from leveret.protocols.http.async_broker import AsyncBroker
from leveret.protocols.http.cluster import awaited
from leveret.protocols.http.response import Answer, Answered
from leveret.protocols.management.bindings import find_exchange
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.context import Row
from leveret.protocols.management.listing import rows
from leveret.protocols.management.refusals import BadRequest, answer
from leveret.runtime.large_bodies import drop_unused, fetch, is_large, put_away
from leveret.runtime.outgoing import PreparedMessage, check_headers, check_size
from leveret.runtime.redrive import Redrive
from leveret.security.authorisation import Role, check_user_id

SHORT_BYTES_MAX = 255
PRIORITY_MAX = 255
NUMBERS = {"priority": PRIORITY_MAX, "delivery_mode": 2, "timestamp": 2**63 - 1}
PERSISTENT = 2


def publish(call: ManagementCall) -> Answered:
    """Publish a message; say whether a queue has it, when it is durable."""
    call.need("payload", "payload_encoding", "properties", "routing_key")
    key = call.field("routing_key", str)
    prepared = _prepared(call)
    if is_large(call.runtime, prepared):
        return _publish_large(call, key, prepared)
    return call.change(lambda core: _routed(_send(call, core, key, prepared)))


def destinations(call: ManagementCall) -> list[str]:
    """The queues that a message would go to, if the user may publish it."""
    call.need("payload", "payload_encoding", "properties", "routing_key")
    key, prepared = call.field("routing_key", str), _prepared(call)
    with call.runtime as core:
        _check_publish(call, core, key, prepared)
        found = core.route_through(call.named("vhost"), call.named_exchange(), key, prepared.properties)
        return [queue.name for queue in found]


async def _publish_large(call: ManagementCall, key: str, prepared: PreparedMessage) -> Answer:
    """Put the body away first, in another thread."""
    async_broker = call.context.async_broker
    with async_broker.runtime as core:
        _check_publish(call, core, key, prepared)
    away = await async_broker.in_thread(lambda: put_away(async_broker.runtime, prepared))
    return await awaited(call.change(lambda core: _routed(_send(call, core, key, away))))


def _check_publish(call: ManagementCall, core: Broker, key: str, prepared: PreparedMessage) -> None:
    """Refuse who may not publish so."""
    exchange = find_exchange(call.virtual_host(core), call.named_exchange())
    for each in all_keys(prepared.properties, key) if prepared.properties.headers else [key]:
        call.authorize("basic.publish", {"exchange": exchange.name}, each if exchange.type == "topic" else None)


def _send(call: ManagementCall, core: Broker, key: str, prepared: PreparedMessage) -> Published:
    try:
        _check_publish(call, core, key, prepared)
        options = prepared.options(core.now_ms)
        persistent = prepared.properties.delivery_mode == PERSISTENT
        exchange = call.named_exchange()
        return core.publish_through(
            call.named("vhost"), exchange, key, prepared.properties, prepared.data, persistent=persistent, **options
        )
    finally:
        drop_unused(call.runtime, prepared)


def _routed(published: Published) -> Answer:
    return answer({"routed": published.routed and not published.refused})


def _prepared(call: ManagementCall) -> PreparedMessage:
    data = _payload(call)
    check_size(len(data), call.runtime.options.message_bytes_max)
    found = without_client_deaths(_properties(call))
    check_user_id(call.identity, found.user_id)
    check_headers(*content(found, b""))
    ttl_ms = None if found.expiration is None else _expiration_ms(found.expiration)
    return PreparedMessage(found, data, found.priority or 0, None, ttl_ms, 0, None)


def _payload(call: ManagementCall) -> bytes:
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


def _properties(call: ManagementCall) -> Properties:
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


COUNT_MAX = 10_000  # messages that one request takes
TAKEN_BYTES_MAX = 16 << 20  # of their bodies: the answer is in memory as a whole
LEASE_MS = 60_000  # for fetching their bodies
ENCODINGS = ("auto", "base64")


class TakenMessage(NamedTuple):
    """A message that was taken, and how many were left behind it."""

    held: Held
    lease: int
    message: Message
    redelivered: bool
    left: int

    @property
    def is_large(self) -> bool:
        """Whether its body is kept outside of the log."""
        return self.message.flags & BLOB != 0


End = Callable[[Broker, Queue, Held, int], None]


def _requeue(core: Broker, queue: Queue, held: Held, lease: int) -> None:
    core.nack(queue, held, lease, 0)


ENDS: dict[str, End] = {
    "ack_requeue_true": _requeue,
    "reject_requeue_true": _requeue,
    "ack_requeue_false": lambda core, queue, held, lease: queue.ack(held, lease),
    "reject_requeue_false": lambda core, queue, held, lease: queue.reject(held, lease),
}


def get(call: ManagementCall) -> Answered:
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

    end = ENDS[mode]

    def take(core: Broker) -> list[TakenMessage]:
        queue = call.queue(core)
        call.authorize("basic.get", {"queue": queue.name})
        core.check_owner(queue, None)
        check_get(queue)
        taken = _take(core, queue, count)
        if not any(each.is_large for each in taken):
            _finish(core, taken, end)
        return taken

    return _told(call, take, end, encoding, truncate)


def _take(core: Broker, queue: Queue, count: int) -> list[TakenMessage]:
    """Take some messages, at most so many bytes; under the lock."""
    taken: list[TakenMessage] = []
    size_bytes = 0
    while len(taken) < count and size_bytes < TAKEN_BYTES_MAX:
        leased = queue.take(1, LEASE_MS)
        if not leased:
            break
        held = leased[0]
        try:
            message = browse.read(held)
        except JournalError:
            _finish(core, taken, _requeue)
            _requeue(core, queue, held, held.lease)
            raise
        size_bytes += len(message.body)
        taken.append(TakenMessage(held, held.lease, message, held.deliveries > 1, queue.depth))
    return taken


def _finish(core: Broker, taken: list[TakenMessage], end: End) -> None:
    """End what was taken in one way, all of it at last: what is given back would be the next one to be taken."""
    for each in taken:
        with suppress(InvalidReceipt):  # fetching its body took longer than the lease
            end(core, each.held.queue, each.held, each.lease)


async def _told(
    call: ManagementCall, take: Callable[[Broker], list[TakenMessage]], end: End, encoding: str, truncate: int | None
) -> Answer:
    """What was taken, when that is durable."""
    async_broker = call.context.async_broker
    taken = await awaited(async_broker.change(take))
    bodies = [each.message.body for each in taken]
    if any(each.is_large for each in taken):
        bodies = await _fetched(async_broker, taken, end)
    return answer([_taken_row(*pair, encoding, truncate) for pair in zip(taken, bodies, strict=False)])


async def _fetched(async_broker: AsyncBroker, taken: list[TakenMessage], end: End) -> list[bytes]:
    """The bodies; what is too much for one answer is given back, and all of it when a body cannot be had."""
    try:
        bodies = await _bodies(async_broker, taken)
    except BaseException:  # also when the client has disconnected
        async_broker.change(lambda core: _finish(core, taken, _requeue))
        raise

    def finish(core: Broker) -> None:
        _finish(core, taken[: len(bodies)], end)
        _finish(core, taken[len(bodies) :], _requeue)

    await awaited(async_broker.change(finish))
    return bodies


async def _bodies(async_broker: AsyncBroker, taken: list[TakenMessage]) -> list[bytes]:
    """The first bodies, large ones fetched in another thread, as many as one answer has room for."""
    bodies: list[bytes] = []
    size_bytes = 0
    for each in taken:
        body = each.message.body
        if each.is_large:
            body = await async_broker.in_thread(partial(fetch, async_broker.runtime, body))
        size_bytes += len(body)
        if bodies and size_bytes > TAKEN_BYTES_MAX:
            break
        bodies.append(body)
    return bodies


def _taken_row(taken: TakenMessage, body: bytes, encoding: str, truncate: int | None) -> dict[str, Any]:
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
    """Text if it is some and base64 was not asked for."""
    if encoding == "auto":
        try:
            return data.decode(), "string"
        except UnicodeDecodeError:
            pass
    return b64encode(data).decode(), "base64"


async def move(call: ManagementCall) -> Answer:
    """Move what waits to another queue, or each message to where it died first."""
    to = call.field("destination", str) if "destination" in call.body else None
    limit = call.field("limit", int) if "limit" in call.body else None
    if limit is not None and limit < 1:
        raise BadRequest("limit is a number of messages, at least 1")
    async_broker = call.context.async_broker
    with async_broker.runtime as core:
        queue = call.queue(core)
        names: dict[Role, str] = {"queue": queue.name, **({} if to is None else {"destination_queue": to})}
        call.authorize("queue.redrive", names)
        core.check_owner(queue, None)
        if to is not None and (to in call.virtual_host(core).queues or core.away is None):
            core.check_owner(call.virtual_host(core).queue(to), None)

    def moves_to(name: str) -> bool:
        return call.allows("queue.redrive", {"queue": queue.name, "destination_queue": name})

    redrive = Redrive(async_broker.runtime, queue, to, Filter(), limit, None, False, moves_to)
    result = await async_broker.in_thread(lambda: redrive.run(None))
    return answer({"matched": result.matched, "moved": result.moved, "skipped": result.skipped})


LEASES_MAX = 1_000  # that one answer tells of, those that are held longest


@rows
def list_leases(call: ManagementCall, core: Broker) -> list[Row]:
    """The leases of a queue, the oldest first."""
    queue = call.queue(core)
    call.authorize("basic.get", {"queue": queue.name})
    oldest = nsmallest(LEASES_MAX, browse.holdings(queue, "leased"), key=attrgetter("delivered_ms", "seq"))
    return [_lease_row(call, core.tag, held) for held in oldest]


def _lease_row(call: ManagementCall, tag: int, held: Held) -> Row:
    """A lease; under the lock. Who takes by HTTP has a name, and no connection."""
    holder = call.context.clients.holder(held.consumer)
    return {
        "message_id": format_id(tag, held.seq),
        "priority": held.priority,
        "deliveries": held.deliveries,
        "enqueued_at": held.enqueued_ms,
        "taken_at": held.delivered_ms,
        "ends_at": held.when_ms or None,
        "holder": {"name": held.consumer} if isinstance(held.consumer, str) else holder,
    }


# Not due yet

TOLD_MAX = 500
TOLD = 100
EXAMINED_MAX = 100_000  # messages that one answer looks at, under the lock
CHOICE_MAX = 1_000  # queues that are named


def list_scheduled(call: ManagementCall) -> Answer:
    """The next ones of a virtual host that are due, of all its queues or of one."""
    wanted, limit = call.request.query.get("queue"), call.number("limit")
    if limit is not None and not 1 <= limit <= TOLD_MAX:
        raise BadRequest(f"limit is from 1 to {TOLD_MAX}: ask for one queue to see more of it")
    with call.runtime as core:
        holding = [queue for queue in call.virtual_host(core).queues.values() if queue.scheduled]
        readable = [queue for queue in holding if call.allows("basic.get", {"queue": queue.name})]
        allowed = sorted(readable, key=attrgetter("name"))
        meant = [queue for queue in allowed if wanted in (None, queue.name)]
        found, examined = _holdings(meant)
        next_due = nsmallest(limit or TOLD, found, key=attrgetter("when_ms", "seq"))
        rows = [_scheduled_row(core.tag, held) for held in next_due]
    return answer(
        {
            "messages": rows,
            "queues": [{"name": queue.name, "scheduled": queue.scheduled} for queue in allowed[:CHOICE_MAX]],
            "total": sum(queue.scheduled for queue in meant),
            "complete": examined == len(meant),
        }
    )


def _holdings(queues: list[Queue]) -> tuple[list[Held], int]:
    """What is scheduled in some queues, until that is too much; and in how many of them."""
    found: list[Held] = []
    for number, queue in enumerate(queues):
        if len(found) > EXAMINED_MAX:
            return found, number
        found += browse.holdings(queue, "scheduled")
    return found, len(queues)


def _scheduled_row(tag: int, held: Held) -> Row:
    message = browse.read(held)
    return {
        "queue": held.queue.name,
        "message_id": format_id(tag, held.seq),
        "due_at": held.when_ms,
        "enqueued_at": held.enqueued_ms,
        "priority": held.priority,
        "exchange": message.exchange,
        "routing_key": message.routing_key.encode("utf-8", "replace").decode(),
        "payload_bytes": len(message.body),
    }


PROPERTIES = tuple(Properties.__dataclass_fields__)


def properties(found: Properties) -> dict[str, Any]:
    """The properties that a message has."""
    given = ((name, getattr(found, name)) for name in PROPERTIES)
    return {name: plain(value) for name, value in given if value is not None}
