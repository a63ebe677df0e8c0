"""A queue on a server: the verbs of the embedded one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from leveret.client import calls
from leveret.client.calls import ANY_ID, Row
from leveret.client.message import RemoteMessage, RemotePeeked, time_of
from leveret.client.processed import RemoteProcessed
from leveret.clock import Clock
from leveret.core.errors import BrokerClosed, InvalidReceipt, MessageNotFound, Unreachable
from leveret.embedded.outgoing import Outgoing
from leveret.embedded.worker import Handler, Worker
from leveret.runtime.redrive import RedriveResult
from leveret.runtime.stats import QueueStats
from leveret.runtime.waiters import ThreadWaiter

if TYPE_CHECKING:
    from leveret.client.broker import RemoteBroker

SEND_MAX = 1_000  # messages of one request, as the server has it
RECEIVE_MAX = 100
ACK_MAX = 1_000
WAIT_S_MAX = 60
WORKER_WAIT_S = 2.0  # of one request of a worker: so long it takes to stop one that has nothing to do
WORKER_REST_MS = 1_000  # after a server was not there

_log = logging.getLogger("leveret.client")


class RemoteQueue:
    """One queue, from broker.queue(): send and receive messages, or let a worker do it. See leveret.Queue."""

    def __init__(self, broker: RemoteBroker, name: str, row: Row | None = None) -> None:
        self.broker = broker
        self.name = name
        self._row = row

    @property
    def _known(self) -> Row:
        """What the server says about it; asked for once."""
        if self._row is None:
            self._row = self.broker.run(calls.describe(self.name))
        return self._row

    @property
    def durable(self) -> bool:
        """Whether it survives a restart."""
        return bool(self._known["durable"])

    @property
    def arguments(self) -> dict[str, Any]:
        """What it was declared with, as AMQP clients know it."""
        return calls.decoded_arguments(self._known)

    @property
    def display_name(self) -> str | None:
        """What people call it, if that is not its name."""
        found: str | None = self._known["display_name"]
        return found

    @property
    def created_at(self) -> datetime | None:
        """When it was declared first; None if a version of Leveret did that which did not note it."""
        return time_of(self._known["created_at"])

    @property
    def lease_ms(self) -> int:
        """How long a message is taken for; 0: for ever."""
        return round(1000 * (self._known["visibility_timeout"] or 0))

    def __repr__(self) -> str:
        return f"<RemoteQueue {self.name!r}>"

    # Sending

    def send(self, body: Any, **options: Any) -> str:
        """Put a message into the queue; give its id once it is durable. Options: those of leveret.Queue.send."""
        return self.broker.run(calls.send(self.name, Outgoing(body, **options), self.broker.new_key()))

    def send_many(self, bodies: Iterable[Any], **options: Any) -> list[str | None]:
        """Send many messages, each thousand in one commit; an `Outgoing` among them has options of its own."""
        sent: list[str | None] = []
        for batch in batches(outgoing_of(bodies, options), SEND_MAX):
            sent += self.broker.run(calls.send_many(self.name, batch, self.broker.new_key()))
        return sent

    # Receiving

    def receive(
        self, count: int = 1, wait: float = 0, *, visibility_timeout: float | None = None
    ) -> list[RemoteMessage]:
        """Take up to `count` messages; when there is none, wait up to `wait` seconds for the first."""
        found = self._receive(count, min(wait, WAIT_S_MAX), visibility_timeout)
        while not found and wait > WAIT_S_MAX:
            wait -= WAIT_S_MAX
            found = self._receive(count, min(wait, WAIT_S_MAX), visibility_timeout)
        while len(found) < count and len(found) % RECEIVE_MAX == 0 and found:
            more = self._receive(count - len(found), 0, visibility_timeout)
            if not more:
                break
            found += more
        return found

    def _receive(self, count: int, wait_s: float, lease_s: float | None) -> list[RemoteMessage]:
        rows = self.broker.run(calls.receive(self.name, min(count, RECEIVE_MAX), wait_s, lease_s))
        return [RemoteMessage(self, row) for row in rows]

    def take_waiting(self, waiter: ThreadWaiter) -> list[RemoteMessage]:
        """Take one message, however long it takes to come, over restarts of the server; nothing when stopped."""
        while not waiter.stopped:
            try:
                found = self._receive(1, WORKER_WAIT_S, None)
            except Unreachable as error:
                _log.warning("queue %r cannot be reached: %s", self.name, error)
                self.clock.wait(waiter.gate, self.clock.now_ms() + WORKER_REST_MS)
            else:
                if found:
                    return found
        return []

    def __iter__(self) -> Iterator[RemoteMessage]:
        """Take message after message, for as long as the client is open."""
        try:
            while True:
                yield from self.receive(1, WAIT_S_MAX)
        except BrokerClosed:
            return

    # Settling

    def ack(self, receipt: str) -> None:
        """Done with the message of a receipt."""
        self.broker.run(calls.ack(self.name, ANY_ID, receipt))

    def nack(self, receipt: str, delay: float | None = None) -> None:
        """Give the message of a receipt back, for after `delay` seconds or the backoff of the queue."""
        self.broker.run(calls.nack(self.name, ANY_ID, receipt, delay))

    def extend(self, receipt: str, seconds: float) -> None:
        """Keep the message of a receipt for so many seconds from now on."""
        self.broker.run(calls.extend(self.name, ANY_ID, receipt, seconds))

    def reject(self, receipt: str) -> None:
        """Make the message of a receipt a dead letter."""
        self.broker.run(calls.reject(self.name, ANY_ID, receipt))

    def ack_many(self, messages: Iterable[RemoteMessage]) -> None:
        """Done with all these messages; those whose lease had ended are named by InvalidReceipt after the others."""
        batch = list(messages)
        check_own(self.name, [(each.source.name, each.id) for each in batch])
        late = 0
        for some in batches(batch, ACK_MAX):
            late += len(self.broker.run(calls.ack_many(self.name, [each.receipt for each in some])))
        check_none_late(self.name, late, len(batch))

    # Looking and managing

    def __len__(self) -> int:
        return self.stats().ready

    def __bool__(self) -> bool:
        return True

    def stats(self) -> QueueStats:
        """Its figures."""
        return self.broker.run(calls.stats(self.name))

    def browse(self, limit: int = 100, *, state: str = "ready", **conditions: Any) -> list[RemotePeeked]:
        """Up to `limit` messages in the order of delivery, without taking them."""
        return [RemotePeeked(row) for row in self.broker.run(calls.browse(self.name, limit, state, conditions))]

    def scheduled(self, limit: int = 100) -> list[RemotePeeked]:
        """The messages whose delay has not ended, the next one first."""
        return self.browse(limit, state="scheduled")

    def cancel(self, message_id: str) -> bool:
        """Remove a message that is scheduled for later; False when it is not."""
        try:
            self.broker.run(calls.cancel(self.name, message_id))
        except MessageNotFound:
            return False
        return True

    def purge(self) -> int:
        """Remove everything that is ready; give the number of messages."""
        return self.broker.run(calls.purge(self.name))

    def pause(self) -> None:
        """Hand nothing out until resume(); sending goes on."""
        self.broker.run(calls.pause(self.name, True))

    def resume(self) -> None:
        """Hand messages out again."""
        self.broker.run(calls.pause(self.name, False))

    def delete(self, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete the queue with everything in it; give the number of messages that were ready."""
        return self.broker.run(calls.delete(self.name, if_unused, if_empty))

    def redrive(
        self,
        to: str | RemoteQueue | None = None,
        *,
        limit: int | None = None,
        rate: float | None = None,
        dry_run: bool = False,
        **conditions: Any,
    ) -> RedriveResult:
        """Move messages to another queue, by default each to the one where it died first."""
        target = to.name if isinstance(to, RemoteQueue) else to
        return self.broker.run(calls.redrive(self.name, target, limit, rate, dry_run, conditions))

    def discard(self, *, limit: int | None = None, dry_run: bool = False, **conditions: Any) -> int:
        """Remove the ready messages that meet conditions; give their number. A dry run only counts."""
        return self.broker.run(calls.discard(self.name, limit, dry_run, conditions))

    # Working: what a Worker needs of its source

    @property
    def clock(self) -> Clock:
        """What tells the time."""
        return self.broker.clock

    def flush(self) -> None:
        """Everything that was answered is durable already."""

    def processed(self, name: str) -> RemoteProcessed:
        """What workers of that name have done."""
        return RemoteProcessed(self, name)

    def worker(self, **options: Any) -> Callable[[Handler], Worker]:
        """Decorate a function to be called with each message; options: concurrency, idempotent, name."""
        return lambda handler: Worker(self, handler, **options).start(self.broker.running)

    def run(self, handler: Handler, **options: Any) -> None:
        """Work with a function until a signal comes or the client is closed; raises what ended it otherwise."""
        Worker(self, handler, **options).run(self.broker.running)


def outgoing_of(bodies: Iterable[Any], options: dict[str, Any]) -> list[Outgoing]:
    """What is sent together."""
    return [body if isinstance(body, Outgoing) else Outgoing(body, **options) for body in bodies]


def batches(whole: list[Any], size: int) -> Iterator[list[Any]]:
    """A list in parts."""
    return (whole[at : at + size] for at in range(0, len(whole), size))


def check_own(name: str, messages: Iterable[tuple[str, str]]) -> None:
    """Refuse messages of other queues."""
    for queue, message_id in messages:
        if queue != name:
            raise InvalidReceipt(f"message {message_id} is not of queue '{name}': acknowledge it there")


def check_none_late(name: str, late: int, count: int) -> None:
    """Tell of messages whose lease had ended."""
    if late:
        raise InvalidReceipt(
            f"{late} of {count} messages of queue '{name}' were not leased any more, the others are "
            "acknowledged: they will be delivered again; ask for a longer visibility timeout"
        )
