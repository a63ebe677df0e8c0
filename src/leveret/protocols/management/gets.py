"""Messages that an operator takes by hand, to look at them or to have them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from leveret.core import browse
from leveret.core.broker import Broker
from leveret.core.errors import InvalidReceipt, JournalError
from leveret.core.filters import BLOB
from leveret.core.held import Held
from leveret.core.message import Message
from leveret.core.queue import Queue
from leveret.core.queue_types import check_get
from leveret.protocols.http.async_broker import AsyncBroker
from leveret.protocols.http.router import Answer
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.refusals import BadRequest, answer
from leveret.protocols.management.values import properties
from leveret.runtime.large_bodies import fetch

COUNT_MAX = 10_000  # messages that one request takes
TAKEN_BYTES_MAX = 16 << 20  # of their bodies: the answer is in memory as a whole
LEASE_MS = 60_000  # for fetching their bodies
ENCODINGS = ("auto", "base64")
T = TypeVar("T")


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


def _reject(core: Broker, queue: Queue, held: Held, lease: int) -> None:
    queue.reject(held, lease)


def _ack(core: Broker, queue: Queue, held: Held, lease: int) -> None:
    queue.ack(held, lease)


ENDS: dict[str, End] = {
    "ack_requeue_true": _requeue,
    "reject_requeue_true": _requeue,
    "ack_requeue_false": _ack,
    "reject_requeue_false": _reject,
}


def get(call: ManagementCall) -> Answer | Awaitable[Answer]:
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
    taken = await _awaited(async_broker.change(take))
    bodies = [each.message.body for each in taken]
    if any(each.is_large for each in taken):
        bodies = await _fetched(async_broker, taken, end)
    return answer([_row(*pair, encoding, truncate) for pair in zip(taken, bodies, strict=False)])


async def _fetched(async_broker: AsyncBroker, taken: list[TakenMessage], end: End) -> list[bytes]:
    """The bodies; what is too much for one answer is given back, and all of it when a body cannot be had."""
    try:
        bodies = await _bodies(async_broker, taken)
    except BaseException:  # also when the client has gone meanwhile
        async_broker.change(lambda core: _finish(core, taken, _requeue))
        raise

    def finish(core: Broker) -> None:
        _finish(core, taken[: len(bodies)], end)
        _finish(core, taken[len(bodies) :], _requeue)

    await _awaited(async_broker.change(finish))
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


async def _awaited(result: T | Awaitable[T]) -> T:
    return await result if isinstance(result, Awaitable) else result


def _row(taken: TakenMessage, body: bytes, encoding: str, truncate: int | None) -> dict[str, Any]:
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
    """Text if it is some and base64 was not asked for."""
    if encoding == "auto":
        try:
            return data.decode(), "string"
        except UnicodeDecodeError:
            pass
    return b64encode(data).decode(), "base64"
