"""The verbs of a queue that wait for nothing: to send, take and settle, under the lock of the runtime.

What sends gives the commit batch to wait for: the protocols and the embedded API wait for it in their own ways.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Unpack

from leveret.core.arguments import TIME_MS_MAX
from leveret.core.broker import Broker as Core
from leveret.core.errors import InvalidArgument, InvalidReceipt, QueueFull, QueueNotFound
from leveret.core.held import Held
from leveret.core.ids import format_id
from leveret.core.queue import Queue as CoreQueue
from leveret.runtime.bodies import BYTES_TYPE, HEADERS, encode
from leveret.runtime.declare import milliseconds
from leveret.runtime.keywords import SendOptions
from leveret.runtime.large_bodies import drop_unused, fetch, is_large, put_away
from leveret.runtime.message import Message, ReceivedMessage, ack_all, all_bytes, ids, wrap
from leveret.runtime.outgoing import PLAIN, Outgoing, PreparedMessage, prepare
from leveret.runtime.waiters import Waiter
from leveret.storage.blobs import body_bytes

if TYPE_CHECKING:
    from leveret.runtime.runtime import Runtime

RECEIVE_MAX = 10_000  # messages that one call takes: a lease costs memory and a timer


def _nack(core: Core, queue: CoreQueue, held: Held, lease: int, delay: float | None) -> None:
    wait_ms = None if delay is None else min(milliseconds("delay", delay), TIME_MS_MAX)
    core.nack(queue, held, lease, wait_ms, random.random())


def _extend(core: Core, queue: CoreQueue, held: Held, lease: int, seconds: float) -> None:
    queue.extend(held, lease, min(milliseconds("seconds", seconds), TIME_MS_MAX))


SETTLE: dict[str, Callable[[Core, CoreQueue, Held, int, Any], None]] = {
    "ack": lambda core, queue, held, lease, value: queue.ack(held, lease),
    "nack": _nack,
    "extend": _extend,
    "reject": lambda core, queue, held, lease, value: queue.reject(held, lease),
}


class RuntimeQueue:
    """One queue. The object is cheap: it keeps nothing that the core does not know."""

    __slots__ = ("__weakref__", "_core", "runtime", "tag")

    def __init__(self, runtime: Runtime, core: CoreQueue) -> None:
        self.runtime = runtime
        self._core = core
        self.tag = runtime.core.engine.tag

    @property
    def name(self) -> str:
        """Its name."""
        return self._core.name

    @property
    def durable(self) -> bool:
        """Whether it survives a restart."""
        return self._core.durable

    @property
    def lease_ms(self) -> int:
        """How long a message is taken for; 0: for ever."""
        return self._core.policy.lease_ms or 0

    @property
    def core(self) -> CoreQueue:
        """The queue in the core; only for use under the lock."""
        if self._core.deleted:
            raise QueueNotFound(f"queue '{self._core.name}' was deleted: declare it again with broker.queue()")
        return self._core

    @property
    def anyway(self) -> CoreQueue:
        """The queue in the core, even if it was deleted."""
        return self._core

    def __repr__(self) -> str:
        return f"<Queue {self.name!r}>"

    def fetch(self, pointer: bytes) -> bytes:
        """The large body that a pointer in a message stands for."""
        return fetch(self.runtime, pointer)

    # Sending

    def post(self, message: Outgoing) -> tuple[int, str] | None:
        """Send without waiting: the commit batch to wait for, and the id. None for a large one: storing it takes
        time.
        """
        done = self._send_plain(message)
        if done is None:
            prepared = self._prepare(message)
            return None if self._is_large(prepared) else self._sent(*self._enter([prepared]))
        return done

    def post_large(self, message: Outgoing) -> tuple[int, str]:
        """The same as post, for a message of any size: storing its body may take time."""
        return self._sent(*self._publish([self._prepare(message)]))

    def post_many(self, batch: list[Any], **options: Unpack[SendOptions]) -> tuple[int, list[str | None]] | None:
        """The same as post, for many."""
        done = self._send_bytes(batch, options)
        if done is None:
            entered = self.post_prepared(self._prepare_many(batch, options))
            return None if entered is None else (entered[0], ids(self.tag, entered[1]))
        return done

    def post_many_large(self, batch: list[Any], **options: Unpack[SendOptions]) -> tuple[int, list[str | None]]:
        """The same as post_large, for many."""
        commit_batch, numbers = self._publish(self._prepare_many(batch, options))
        return commit_batch, ids(self.tag, numbers)

    def post_bodies(self, header: bytes, bodies: list[bytes]) -> tuple[int, list[int]] | None:
        """Send bodies that all have this content header; None when one of them is large, or compared with others."""
        if self._core.policy.content_dedup or not all_bytes(bodies, self._plain_bytes_max):
            return None
        with self.runtime as core:
            numbers = core.send_many(self.core, header, bodies)
            return self.runtime.commit(), numbers

    def post_prepared(self, batch: list[PreparedMessage]) -> tuple[int, list[int]] | None:
        """The same for messages that were checked: the commit batch to wait for, and their numbers, 0 for a refused
        one.
        """
        return None if any(map(self._is_large, batch)) else self._enter(batch)

    def send_prepared(self, batch: list[PreparedMessage]) -> list[int]:
        """Send such messages, also large ones, and return when they are durable."""
        commit_batch, numbers = self._publish(batch)
        self.runtime.wait(commit_batch)
        return numbers

    def _send_plain(self, message: Outgoing) -> tuple[int, str] | None:
        """The short way of a small message that is nothing but a body; None for others."""
        if message[1:] != PLAIN or self._core.policy.content_dedup:
            return None
        content_type, data = encode(message.body)
        done = self.post_bodies(HEADERS[content_type], [data])
        return None if done is None else self._sent(*done)

    def _sent(self, commit_batch: int, numbers: list[int]) -> tuple[int, str]:
        """The outcome of sending one message."""
        if numbers[0] == 0:
            raise QueueFull(f"queue '{self.name}' is at its limit: let consumers work, or raise max_length")
        return commit_batch, format_id(self.tag, numbers[0])

    def _send_bytes(self, batch: list[Any], options: SendOptions) -> tuple[int, list[str | None]] | None:
        """The short way of small bodies that are bytes; None for others."""
        done = None if options else self.post_bodies(HEADERS[BYTES_TYPE], batch)
        return None if done is None else (done[0], ids(self.tag, done[1]))

    def _prepare(self, message: Outgoing) -> PreparedMessage:
        policy = self._core.policy
        return prepare(message, policy.max_message_bytes or self.runtime.options.message_bytes_max, policy)

    def _prepare_many(self, batch: list[Any], options: SendOptions) -> list[PreparedMessage]:
        messages = (body if isinstance(body, Outgoing) else Outgoing(body, **options) for body in batch)
        return [self._prepare(message) for message in messages]

    def _is_large(self, prepared: PreparedMessage) -> bool:
        """Whether the body of a message goes to the blob store, which takes time."""
        return self._core.durable and is_large(self.runtime, prepared)

    def _publish(self, messages: list[PreparedMessage]) -> tuple[int, list[int]]:
        """Put large bodies away, publish everything in one commit batch; give that and the numbers, 0 where it was
        full.
        """
        if not any(self._is_large(each) for each in messages):
            return self._enter(messages)
        stored: list[PreparedMessage] = []
        try:
            for each in messages:
                stored.append(put_away(self.runtime, each) if self._is_large(each) else each)
            return self._enter(stored)
        finally:
            with self.runtime.lock:
                for each in stored:
                    drop_unused(self.runtime, each)

    def _enter(self, messages: list[PreparedMessage]) -> tuple[int, list[int]]:
        with self.runtime as core:
            queue = self.core
            numbers = []
            for message in messages:
                wire, header_len = message.wire()
                options = message.options(core.now_ms)
                numbers.append(core.publish([queue], queue.route, wire, header_len, **options))
            return self.runtime.commit(), numbers

    @property
    def _plain_bytes_max(self) -> int:
        """The largest body that needs neither a refusal nor the blob store."""
        most = self._core.policy.max_message_bytes or self.runtime.options.message_bytes_max
        return min(most, self.runtime.blob_bytes) if self._core.durable else most

    # Receiving

    def take(
        self,
        count: int,
        lease_ms: int | None,
        bytes_max: int = 0,
        consumer: str | None = None,
        waiter: Waiter | None = None,
        again: bool = False,
    ) -> list[Message]:
        """Take what there is, as much as one answer may have; `consumer` is who the journal says that it was.

        When there is nothing, the waiter is woken when there is; `again`: it was woken before, and another was quicker.
        """
        with self.runtime:
            taken = wrap(self, self.core.take(count, lease_ms, consumer, bytes_max, body_bytes))
            if waiter is not None and not taken:
                waiters = self.runtime.waiters
                (waiters.rejoin if again else waiters.join)(self._core, waiter)
        return taken

    def stop_waiting(self, waiter: Waiter) -> None:
        with self.runtime.lock:
            self.runtime.waiters.leave(self._core, waiter)

    def lease_of(self, count: int, visibility_timeout: float | None) -> int | None:
        """How long messages are taken for; None: as long as the queue says."""
        if type(count) is not int or not 1 <= count <= RECEIVE_MAX:
            raise InvalidArgument(f"receive takes 1 to {RECEIVE_MAX} messages at a time, not {count!r}")
        return None if visibility_timeout is None else milliseconds("visibility_timeout", visibility_timeout)

    # Settling

    def settle(self, message: Message, verb: str, value: Any = None) -> None:
        """End or extend the lease of a message; the verbs of Message come here."""
        with self.runtime as core:
            SETTLE[verb](core, self.core, message.held, message.lease, value)

    def receipt_of(self, message: Message) -> str:
        """The receipt of a message that was taken from here."""
        return self.runtime.receipts.write(self._core.id, message.seq, message.lease)

    def _settle_receipt(self, receipt: str, verb: str, value: Any = None) -> None:
        """The same for a receipt."""
        seq, lease = self.runtime.receipts.read(self._core.id, receipt)
        with self.runtime as core:
            SETTLE[verb](core, self.core, self.core.find_lease(seq, lease), lease, value)

    def ack(self, receipt: str) -> None:
        """Done with the message of a receipt."""
        self._settle_receipt(receipt, "ack")

    def nack(self, receipt: str, delay: float | None = None) -> None:
        """Give the message of a receipt back, for after `delay` seconds or the backoff of the queue."""
        self._settle_receipt(receipt, "nack", delay)

    def extend(self, receipt: str, seconds: float) -> None:
        """Keep the message of a receipt for so many seconds from now on."""
        self._settle_receipt(receipt, "extend", seconds)

    def reject(self, receipt: str) -> None:
        """Make the message of a receipt a dead letter."""
        self._settle_receipt(receipt, "reject")

    def ack_many(self, messages: Iterable[ReceivedMessage]) -> None:
        """Done with all these messages; those whose lease had ended are named by InvalidReceipt after the others."""
        batch = list(messages)
        with self.runtime:
            late = ack_all(self.core, batch)
        if late:
            raise InvalidReceipt(
                f"{late} of {len(batch)} messages of queue '{self.name}' were not leased any more, the others are "
                "acknowledged: they will be delivered again; ask for a longer visibility timeout"
            )
