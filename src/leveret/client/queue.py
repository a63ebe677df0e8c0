"""A queue on a server: the verbs of the embedded one."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from leveret.client import calls
from leveret.client.calls import ANY_ID, Row
from leveret.client.message import AsyncRemoteMessage, MessageVerbs, RemoteMessage, RemotePeeked, time_of
from leveret.client.session import HasSession, Remote
from leveret.clock import Clock
from leveret.core.errors import BrokerClosed, InvalidReceipt, MessageNotFound, Unreachable
from leveret.core.names import PROCESSED_SUFFIX
from leveret.embedded.outgoing import Outgoing
from leveret.embedded.processed import WINDOW_S
from leveret.embedded.verbs import Asynchronous, Threaded, attribute, drain, finish, verb
from leveret.embedded.worker import Handler, Worker
from leveret.runtime.redrive import RedriveResult
from leveret.runtime.stats import QueueStats
from leveret.runtime.waiters import ThreadWaiter

if TYPE_CHECKING:
    from leveret.client.broker import AsyncRemoteBroker, RemoteBroker

SEND_MAX = 1_000  # messages of one request, as the server has it
RECEIVE_MAX = 100
ACK_MAX = 1_000
WAIT_S_MAX = 60
WORKER_WAIT_S = 2.0  # of one request of a worker: so long it takes to stop one that has nothing to do
WORKER_REST_MS = 1_000  # after a server was not there

M = TypeVar("M", bound=MessageVerbs)
_log = logging.getLogger("leveret.client")


class QueueVerbs(Remote, Generic[M]):
    """What both clients do with a queue."""

    _message: Callable[[Any, Row], M]

    def __init__(self, broker: HasSession, name: str, row: Row | None = None) -> None:
        super().__init__(broker, name)
        self._row = row

    async def _known(self) -> Row:
        """What the server says about it; asked for once."""
        if self._row is None:
            self._row = await self._ask(calls.describe(self.name))
        return self._row

    @attribute
    async def durable(self) -> bool:
        """Whether it survives a restart."""
        return bool((await self._known())["durable"])

    @attribute
    async def arguments(self) -> dict[str, Any]:
        """What it was declared with, as AMQP clients know it."""
        return calls.decoded_arguments(await self._known())

    @attribute
    async def display_name(self) -> str | None:
        """What people call it, if that is not its name."""
        found: str | None = (await self._known())["display_name"]
        return found

    @attribute
    async def created_at(self) -> datetime | None:
        """When it was declared first; None if a version of Leveret did that which did not note it."""
        return time_of((await self._known())["created_at"])

    @attribute
    async def lease_ms(self) -> int:
        """How long a message is taken for; 0: for ever."""
        return round(1000 * ((await self._known())["visibility_timeout"] or 0))

    # Sending

    @verb
    async def send(self, /, body: Any, **options: Any) -> str:
        """Put a message into the queue; give its id once it is durable. Options: those of leveret.Queue.send."""
        return await self._ask(calls.send(self.name, Outgoing(body, **options), self.broker.session.new_key()))

    @verb
    async def send_many(self, /, bodies: Iterable[Any], **options: Any) -> list[str | None]:
        """Send many messages, each thousand in one commit; an `Outgoing` among them has options of its own."""
        messages = [body if isinstance(body, Outgoing) else Outgoing(body, **options) for body in bodies]
        sent: list[str | None] = []
        for batch in batches(messages, SEND_MAX):
            sent += await self._ask(calls.send_many(self.name, batch, self.broker.session.new_key()))
        return sent

    # Receiving

    @verb
    async def receive(self, count: int = 1, wait: float = 0, *, visibility_timeout: float | None = None) -> list[M]:
        """Take up to `count` messages; when there is none, wait up to `wait` seconds for the first."""
        found: list[M] = []
        for wait_s in waits(wait):
            found = await self._receive(count, wait_s, visibility_timeout)
            if found:
                break
        while len(found) < count and len(found) % RECEIVE_MAX == 0 and found:
            more = await self._receive(count - len(found), 0, visibility_timeout)
            if not more:
                break
            found += more
        return found

    async def _receive(self, count: int, wait_s: float, lease_s: float | None) -> list[M]:
        rows = await self._ask(calls.receive(self.name, min(count, RECEIVE_MAX), wait_s, lease_s))
        return [self._message(self, row) for row in rows]

    async def _messages(self) -> AsyncGenerator[M, None]:
        """Message after message, for as long as the client is open."""
        try:
            while True:
                for message in await self._receive(1, WAIT_S_MAX, None):
                    yield message
        except BrokerClosed:
            return

    # Settling

    @verb
    async def ack(self, receipt: str) -> None:
        """Done with the message of a receipt."""
        await self._ask(calls.ack(self.name, ANY_ID, receipt))

    @verb
    async def nack(self, receipt: str, delay: float | None = None) -> None:
        """Give the message of a receipt back, for after `delay` seconds or the backoff of the queue."""
        await self._ask(calls.nack(self.name, ANY_ID, receipt, delay))

    @verb
    async def extend(self, receipt: str, seconds: float) -> None:
        """Keep the message of a receipt for so many seconds from now on."""
        await self._ask(calls.extend(self.name, ANY_ID, receipt, seconds))

    @verb
    async def reject(self, receipt: str) -> None:
        """Make the message of a receipt a dead letter."""
        await self._ask(calls.reject(self.name, ANY_ID, receipt))

    @verb
    async def ack_many(self, messages: Iterable[M]) -> None:
        """Done with all these messages; those whose lease had ended are named by InvalidReceipt after the others."""
        batch = list(messages)
        for each in batch:
            if each.source.name != self.name:
                raise InvalidReceipt(f"message {each.id} is not of queue '{self.name}': acknowledge it there")
        late = 0
        for some in batches(batch, ACK_MAX):
            late += len(await self._ask(calls.ack_many(self.name, [each.receipt for each in some])))
        if late:
            raise InvalidReceipt(
                f"{late} of {len(batch)} messages of queue '{self.name}' were not leased any more, the others are "
                "acknowledged: they will be delivered again; ask for a longer visibility timeout"
            )

    # Looking and managing

    @verb
    async def stats(self) -> QueueStats:
        """Its figures."""
        return await self._ask(calls.stats(self.name))

    @verb
    async def browse(self, /, limit: int = 100, *, state: str = "ready", **conditions: Any) -> list[RemotePeeked]:
        """Up to `limit` messages in the order of delivery, without taking them."""
        return await self._browse(limit, state, conditions)

    @verb
    async def scheduled(self, limit: int = 100) -> list[RemotePeeked]:
        """The messages whose delay has not ended, the next one first."""
        return await self._browse(limit, "scheduled", {})

    async def _browse(self, limit: int, state: str, conditions: dict[str, Any]) -> list[RemotePeeked]:
        return [RemotePeeked(row) for row in await self._ask(calls.browse(self.name, limit, state, conditions))]

    @verb
    async def cancel(self, message_id: str) -> bool:
        """Remove a message that is scheduled for later; False when it is not."""
        try:
            await self._ask(calls.cancel(self.name, message_id))
        except MessageNotFound:
            return False
        return True

    @verb
    async def purge(self) -> int:
        """Remove everything that is ready; give the number of messages."""
        return await self._ask(calls.purge(self.name))

    @verb
    async def pause(self) -> None:
        """Hand nothing out until resume(); sending goes on."""
        await self._ask(calls.pause(self.name, True))

    @verb
    async def resume(self) -> None:
        """Hand messages out again."""
        await self._ask(calls.pause(self.name, False))

    @verb
    async def delete(self, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete the queue with everything in it; give the number of messages that were ready."""
        return await self._ask(calls.delete(self.name, if_unused, if_empty))

    @verb
    async def redrive(
        self,
        /,
        to: str | QueueVerbs[Any] | None = None,
        *,
        limit: int | None = None,
        rate: float | None = None,
        dry_run: bool = False,
        **conditions: Any,
    ) -> RedriveResult:
        """Move messages to another queue, by default each to the one where it died first."""
        target = to.name if isinstance(to, QueueVerbs) else to
        return await self._ask(calls.redrive(self.name, target, limit, rate, dry_run, conditions))

    @verb
    async def discard(self, /, *, limit: int | None = None, dry_run: bool = False, **conditions: Any) -> int:
        """Remove the ready messages that meet conditions; give their number. A dry run only counts."""
        return await self._ask(calls.discard(self.name, limit, dry_run, conditions))


class RemoteQueue(QueueVerbs[RemoteMessage], Threaded):
    """One queue, from broker.queue(): send and receive messages, or let a worker do it. See leveret.Queue."""

    broker: RemoteBroker
    _message = RemoteMessage

    def __iter__(self) -> Iterator[RemoteMessage]:
        return drain(self._messages())

    def __len__(self) -> int:
        return self.stats().ready

    def __bool__(self) -> bool:
        return True

    # Working: what a Worker needs of its source

    @property
    def clock(self) -> Clock:
        """What tells the time."""
        return self.broker.clock

    def take_waiting(self, waiter: ThreadWaiter) -> list[RemoteMessage]:
        """Take one message, however long it takes to come, over restarts of the server; nothing when stopped."""
        while not waiter.stopped:
            try:
                found = finish(self._receive(1, WORKER_WAIT_S, None))
            except Unreachable as error:
                _log.warning("queue %r cannot be reached: %s", self.name, error)
                self.clock.wait(waiter.gate, self.clock.now_ms() + WORKER_REST_MS)
            else:
                if found:
                    return found
        return []

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


class AsyncRemoteQueue(QueueVerbs[AsyncRemoteMessage], Asynchronous):
    """The same for asyncio; what are attributes there are verbs here. Work with `async for`."""

    broker: AsyncRemoteBroker
    _message = AsyncRemoteMessage

    def __aiter__(self) -> AsyncIterator[AsyncRemoteMessage]:
        return self._messages()


class RemoteProcessed:
    """What the workers of one name have done, remembered by the server. See leveret.embedded.processed."""

    def __init__(self, source: RemoteQueue, name: str) -> None:
        self._source = source
        self._name = name
        source.broker.queue(source.name + PROCESSED_SUFFIX, dedup_window=WINDOW_S, durable=source.durable)

    def has(self, message: RemoteMessage) -> bool:
        """Whether a message was handled before."""
        return self._source.broker.run(calls.is_processed(self._source.name, message.id, self._name))

    def finish(self, message: RemoteMessage) -> None:
        """Remember a handled message and acknowledge it, by one frame of the journal."""
        call = calls.finish(self._source.name, message.id, message.receipt, self._name, message.visible_until)
        self._source.broker.run(call)


def batches(whole: list[Any], size: int) -> Iterator[list[Any]]:
    """A list in parts."""
    return (whole[at : at + size] for at in range(0, len(whole), size))


def waits(wait_s: float) -> Iterator[float]:
    """A long wait as waits of one request each; at least one."""
    yield min(wait_s, WAIT_S_MAX)
    while wait_s > WAIT_S_MAX:
        wait_s -= WAIT_S_MAX
        yield min(wait_s, WAIT_S_MAX)
