"""A queue over AMQP: the verbs of the client over HTTP."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from leveret.client.amqp.channels import Outcome, Publish
from leveret.client.amqp.link import Link
from leveret.client.amqp.message import AmqpMessage, AmqpMessageVerbs, AsyncAmqpMessage, settle
from leveret.client.amqp.outbox import publish_method, refuse_delay
from leveret.client.amqp.receiving import ReceiveChannel
from leveret.client.amqp.session import PREFETCH_MAX, AmqpSession
from leveret.client.amqp.traffic import Delivery
from leveret.client.queue import WORKER_REST_MS, AsyncRemoteQueue, QueueVerbs, RemoteProcessed, RemoteQueue
from leveret.clock import NEVER_MS, Clock
from leveret.core.errors import (
    BrokerClosed,
    InvalidArgument,
    InvalidReceipt,
    LeveretError,
    NotSupported,
    QueueFull,
    QueueNotFound,
    Unreachable,
)
from leveret.embedded.worker import Handler, Worker
from leveret.runtime.keywords import SendOptions, WorkerOptions
from leveret.runtime.verbs import finish, verb
from leveret.runtime.waiters import ThreadWaiter
from leveret.wire import methods

if TYPE_CHECKING:
    from leveret.client.amqp.broker import AmqpBroker, AsyncAmqpBroker

GETS_MAX = 250  # basic.get that are sent at once
TAKEN_MAX = 50  # messages that a loop takes from its consumer at once
M = TypeVar("M", bound=AmqpMessageVerbs)
_log = logging.getLogger("leveret.client")


class AmqpQueueVerbs(QueueVerbs[M]):
    """What both clients do with a queue over AMQP; verbs that are not here have no equal there."""

    _message: Callable[..., M]

    def __init__(self, broker: Any, name: str, row: None = None) -> None:
        super().__init__(broker, name, row)
        self.session: AmqpSession = broker.session
        self.link: Link = broker.session.link
        self._method = publish_method("", name)

    # Sending

    @verb
    async def send(self, /, body: Any, **options: Unpack[SendOptions]) -> str:
        """Put a message into the queue; give its id once the broker has confirmed it."""
        if options:
            refuse_delay(options)
        publish = self.session.outbox.one(self._method, body, options)
        await self.link.confirm(publish)
        if publish.outcome is not None:
            raise self._refusal(publish.outcome)
        return self.session.outbox.id(publish)

    def _refusal(self, outcome: Outcome) -> LeveretError:
        """Why the broker did not take a message."""
        if outcome.returned:
            why = next(iter(outcome.returned.values()))
            return QueueNotFound(f"queue '{self.name}' does not exist ({why}): declare it first")
        return QueueFull(
            f"queue '{self.name}' refused the message: it is full, or has failed; receive, or raise its limit"
        )

    @verb
    async def send_many(self, /, bodies: Iterable[Any], **options: Unpack[SendOptions]) -> list[str | None]:
        """Send many messages; give their ids once the broker has confirmed all, None for what a full queue refused.

        They are published while `bodies` is read, however long it is. An `Outgoing` has options of its own.
        """
        refuse_delay(options)
        sent: list[Publish] = []
        for publish in self.session.outbox.many(self._method, bodies, options):
            sent.append(publish)
            await self.link.publish(publish)
        ids: list[str | None] = []
        for publish in sent:
            await self.link.answer(publish.pending)
            if publish.outcome is not None and publish.outcome.returned:
                raise self._refusal(publish.outcome)
            ids += self.session.outbox.ids(publish)
        return ids

    # Receiving

    @verb
    async def receive(self, count: int = 1, wait: float = 0, *, visibility_timeout: float | None = None) -> list[M]:
        """Take up to `count` messages; when there is none, wait up to `wait` seconds for the first."""
        if visibility_timeout is not None:
            raise NotSupported(
                "AMQP has no visibility timeout: a message is taken until it is settled or the connection lost"
            )
        if type(count) is not int or not 1 <= count <= PREFETCH_MAX:
            raise InvalidArgument(f"count is a whole number from 1 to {PREFETCH_MAX}, not {count!r}")
        with self.link.lock:
            channel = self.session.getter(self.name)
        found: list[Delivery] = []
        while len(found) < count:
            asked = min(count - len(found), GETS_MAX)
            got = await self.link.get(channel, asked)
            found += got
            if len(got) < asked:
                break
        if not found and wait > 0:
            channel, found = await self._wait(count, wait)
        return [self._message(self, channel, each) for each in found]

    async def _wait(self, count: int, wait_s: float) -> tuple[ReceiveChannel, list[Delivery]]:
        """Be a consumer until the first message has come."""
        channel, last = self._consumer(count), self.link.pending()
        try:
            with self.link.lock:
                waiter = self.link.pending()
                channel.waiters.append(waiter)
            self.link.touch()
            await self.link.wait(waiter, wait_s)
            if channel.error is not None:
                raise channel.error
        except BaseException:
            self._end(channel)
            raise
        with self.link.lock:
            channel.end(last)
        self.link.touch()
        return channel, await self.link.answer(last)

    def _consumer(self, prefetch: int, **options: Any) -> ReceiveChannel:
        """A channel to which messages are pushed."""
        with self.link.lock:
            self.link.check()
            channel = self.link.connection.receiver(self.name)
            channel.consume(prefetch, **options)
        self.link.touch()
        return channel

    def _end(self, channel: ReceiveChannel) -> None:
        with self.link.lock:
            channel.end()
        self.link.touch()

    async def _messages(self) -> AsyncGenerator[M, None]:
        """Message after message, for as long as the client is open."""
        channel, epoch, taken = None, 0, deque[Delivery]()
        try:
            channel = self._consumer(self.session.prefetch)
            while True:
                with self.link.lock:
                    found = channel.take(TAKEN_MAX)
                    waiter = None if found else self.link.pending()
                    if waiter is not None:
                        channel.waiters.append(waiter)
                taken, epoch = deque(found), channel.epoch
                while taken and channel.epoch == epoch:
                    yield self._message(self, channel, taken.popleft())
                if waiter is not None:
                    self.link.touch()
                    try:
                        await self.link.wait(waiter, None)
                    except BaseException:
                        channel.leave(waiter)
                        raise
        except BrokerClosed:
            return
        finally:
            if channel is not None:
                with self.link.lock:
                    if channel.epoch == epoch:
                        channel.buffer.extendleft(reversed(taken))
                self._end(channel)

    # Settling

    def _settle(self, receipt: str, requeue: bool | None) -> None:
        number, epoch, tag = (int(part) if part.isdigit() else -1 for part in f"{receipt}..".split(".")[:3])
        channel = self.link.connection.channels.get(number)
        if not isinstance(channel, ReceiveChannel):
            raise InvalidReceipt(f"the receipt {receipt!r} is of no message that this client has")
        settle(self.link, channel, tag, epoch, requeue)

    @verb
    async def ack(self, receipt: str) -> None:
        """Done with the message of a receipt."""
        self._settle(receipt, None)

    @verb
    async def nack(self, receipt: str, delay: float | None = None) -> None:
        """Give the message of a receipt back; AMQP knows no delay."""
        if delay is not None:
            raise NotSupported("AMQP requeues at once or after the backoff of the queue: leave the delay out")
        self._settle(receipt, True)

    @verb
    async def extend(self, receipt: str, seconds: float) -> None:
        """What came over AMQP is taken for as long as the connection lasts."""

    @verb
    async def reject(self, receipt: str) -> None:
        """Make the message of a receipt a dead letter."""
        self._settle(receipt, False)

    @verb
    async def ack_many(self, messages: Iterable[M]) -> None:
        """Done with all these messages; InvalidReceipt counts those that are not ours any more, after the others."""
        late = 0
        batch = list(messages)
        with self.link.lock:
            for each in batch:
                try:
                    each.acknowledge()
                except InvalidReceipt:
                    late += 1
        self.link.touch()
        if late:
            raise InvalidReceipt(
                f"{late} of {len(batch)} messages of queue '{self.name}' were settled before, or their connection "
                "is lost; the others are acknowledged"
            )

    # Managing

    async def ready(self) -> int:
        """How many messages are ready."""
        found: int = (await self.link.call(methods.QueueDeclare(self.name, passive=True))).message_count
        return found

    @verb
    async def purge(self) -> int:
        """Remove everything that is ready; give the number of messages."""
        found: int = (await self.link.call(methods.QueuePurge(self.name), again=False)).message_count
        return found

    @verb
    async def delete(self, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete the queue with everything in it; give the number of messages that were ready."""
        method = methods.QueueDelete(self.name, if_unused, if_empty)
        found: int = (await self.link.call(method, again=False)).message_count
        return found


class AmqpQueue(AmqpQueueVerbs[AmqpMessage], RemoteQueue):
    """One queue over AMQP, from broker.queue(). See leveret.Queue."""

    broker: AmqpBroker
    _message: Callable[..., AmqpMessage] = AmqpMessage

    def __len__(self) -> int:
        return finish(self.ready())

    @property
    def lease_ms(self) -> int:
        """Messages are taken until they are settled."""
        return 0

    def worker(self, **options: Unpack[WorkerOptions]) -> Callable[[Handler], Worker]:
        """Decorate a function to be called with each message; options: concurrency, idempotent, name."""
        return lambda handler: Worker(WorkerSource(self), handler, **options).start(self.broker.running)

    def run(self, handler: Handler, **options: Unpack[WorkerOptions]) -> None:
        """Work with a function until a signal comes or the client is closed; raises what ended it otherwise."""
        Worker(WorkerSource(self), handler, **options).run(self.broker.running)


class WorkerSource:
    """A queue as a worker takes of it: by one consumer for all of its threads."""

    lease_ms = 0

    def __init__(self, queue: AmqpQueue) -> None:
        self.name = queue.name
        self._queue, self._link = queue, queue.link
        self._channel: ReceiveChannel | None = None

    @property
    def clock(self) -> Clock:
        """What tells the time."""
        return self._queue.broker.clock

    def take_waiting(self, waiter: ThreadWaiter) -> list[AmqpMessage]:
        """Take one message, however long it takes to come, over restarts of the server; nothing when stopped."""
        channel = self._consumer()
        while not waiter.stopped:
            until_ms = NEVER_MS
            try:
                with self._link.lock:
                    found = channel.take(1)
                    if not found:
                        channel.waiters.append(waiter)
            except Unreachable as error:
                _log.warning("queue %r cannot be reached: %s", self.name, error)
                found, until_ms = [], self.clock.now_ms() + WORKER_REST_MS
            if found:
                return [AmqpMessage(self._queue, channel, found[0])]
            self._link.touch()
            self.clock.wait(waiter.gate, until_ms)
            with self._link.lock:
                channel.leave(waiter)
        return []

    def _consumer(self) -> ReceiveChannel:
        with self._link.lock:
            self._link.check()
            if self._channel is None:
                self._channel = self._link.connection.receiver(self.name)
                self._channel.consume(self._queue.session.prefetch)
        return self._channel

    def flush(self) -> None:
        """The worker has ended: give back what it has not taken, return when the broker has read all acks."""
        channel = self._channel
        if channel is not None:
            pending = self._link.pending()
            with self._link.lock:
                channel.end()
                channel.barrier(pending)
            self._link.touch()
            finish(self._link.answer(pending))

    def processed(self, name: str) -> RemoteProcessed:
        """The memory of handled messages is a verb of HTTP."""
        return RemoteProcessed(self._queue, name)


class AsyncAmqpQueue(AmqpQueueVerbs[AsyncAmqpMessage], AsyncRemoteQueue):
    """The same for asyncio."""

    broker: AsyncAmqpBroker
    _message: Callable[..., AsyncAmqpMessage] = AsyncAmqpMessage
