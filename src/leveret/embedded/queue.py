"""A queue as its users see it: send, receive, settle, each for threads and for asyncio.

`send` returns when the message is durable. `ack`, `nack`, `extend` and `reject` do not wait for the disk: they are
committed with the next commit batch, at the latest after some milliseconds; `broker.flush()` waits for them.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Unpack

from leveret.clock import Clock
from leveret.core import dispatch
from leveret.core.arguments import TIME_MS_MAX
from leveret.core.consumer import Consumer
from leveret.core.errors import BrokerClosed, InvalidArgument, JournalFailed, LeveretError
from leveret.core.held import Held
from leveret.core.queue import Queue as CoreQueue
from leveret.embedded.worker import Handler, Worker
from leveret.observability.propagation import traced
from leveret.runtime.declare import milliseconds
from leveret.runtime.keywords import ConsumerOptions, SendOptions, WorkerOptions
from leveret.runtime.managed import ManagedQueue
from leveret.runtime.message import Message, wrap
from leveret.runtime.outgoing import Outgoing, in_trace
from leveret.runtime.processed import Processed, memory_of
from leveret.runtime.verbs import Steps, finish
from leveret.runtime.waiters import TaskWaiter, ThreadWaiter

if TYPE_CHECKING:
    from leveret.embedded.broker import Broker

SEND_MANY_MAX = 100_000  # messages of one call are one commit batch of the journal
FOREVER_S = TIME_MS_MAX // 1000
PREFETCH_MAX = 65_535  # as in AMQP; what is pushed and not settled waits in memory
_log = logging.getLogger("leveret.consumer")
_numbers = itertools.count(1)


def _batch(bodies: Iterable[Any], options: SendOptions) -> tuple[list[Any], SendOptions]:
    """What is sent together, and its options; all of it carries the trace context of the caller."""
    batch = list(bodies)
    if len(batch) > SEND_MANY_MAX:
        raise InvalidArgument(f"send_many takes {SEND_MANY_MAX} messages at a time, not {len(batch)}")
    headers = traced(options.get("headers"))
    if headers is options.get("headers"):
        return batch, options
    return [in_trace(each) if isinstance(each, Outgoing) else each for each in batch], {**options, "headers": headers}


class Inbox(Consumer):
    """A consumer of the core whose messages wait for a thread."""

    def __init__(self, source: Queue, tag: str, prefetch: int, priority: int, exclusive: bool) -> None:
        """Take up to `prefetch` messages at a time."""
        super().__init__(tag, prefetch=prefetch, priority=priority, exclusive=exclusive)
        self._source = source
        self.messages: SimpleQueue[Message | None] = SimpleQueue()

    def deliver(self, held: Held) -> None:
        self.messages.put(wrap(self._source, [held])[0])

    def cancelled(self) -> None:
        self.messages.put(None)


class Subscription:
    """A running consumer; `cancel` ends it."""

    def __init__(
        self,
        source: Queue,
        callback: Callable[[Message], object],
        *,
        prefetch: int = 10,
        priority: int = 0,
        exclusive: bool = False,
        tag: str | None = None,
    ) -> None:
        if type(prefetch) is not int or not 1 <= prefetch <= PREFETCH_MAX:
            raise InvalidArgument(f"prefetch is 1 to {PREFETCH_MAX}, not {prefetch!r}")
        self._source = source
        self._callback = callback
        self.tag = tag or f"consumer-{next(_numbers)}"
        self._inbox = Inbox(source, self.tag, prefetch, priority, exclusive)
        self._thread = threading.Thread(target=self._run, name=f"leveret-{self.tag}", daemon=True)

    def start(self) -> None:
        """Begin to take messages."""
        with self._source.runtime:
            dispatch.subscribe(self._source.core, self._inbox)
        self._thread.start()

    def cancel(self) -> None:
        """Take no more, finish the message at hand, and give back what had been pushed besides."""
        runtime, queue = self._source.runtime, self._source.anyway
        with suppress(BrokerClosed, JournalFailed), runtime:
            dispatch.unsubscribe(queue, self._inbox)
            runtime.waiters.watch(queue)
        self._inbox.messages.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()
        with suppress(BrokerClosed, JournalFailed), runtime:
            dispatch.requeue(queue, self._inbox)

    stop = cancel

    def _run(self) -> None:
        """Call back for each message until the end."""
        while (message := self._inbox.messages.get()) is not None:
            try:
                self._callback(message)
            except Exception:
                _log.exception(
                    "the consumer %s failed on message %s of queue %r", self.tag, message.id, message.source.name
                )
                self._give_back(message)

    def _give_back(self, message: Message) -> None:
        """Return a message whose callback failed, unless it was settled before."""
        try:
            if message.leased:
                message.nack()
        except LeveretError as error:
            _log.warning("message %s could not be given back: %s", message.id, error)


class Queue(ManagedQueue):
    """One queue, from broker.queue(): send and receive messages, or let a worker do it.

    Iterating takes message after message. For asyncio see leveret.AsyncQueue.
    """

    __slots__ = ("broker",)

    def __init__(self, broker: Broker, core: CoreQueue) -> None:
        super().__init__(broker.runtime, core)
        self.broker = broker

    # Sending

    def send(self, body: Any, **options: Unpack[SendOptions]) -> str:
        """Put a message into the queue; give its id once it is durable.

        Options: priority, delay, ttl, group, dedup_id, headers, properties.
        """
        message = in_trace(Outgoing(body, **options))
        commit_batch, sent = self._send_plain(message) or self.post_large(message)
        self.runtime.wait(commit_batch)
        return sent

    async def _asend(self, body: Any, **options: Unpack[SendOptions]) -> str:
        """The same as send, for asyncio."""
        message = in_trace(Outgoing(body, **options))
        done = self.post(message)
        if done is None:
            done = await asyncio.to_thread(self.post_large, message)
        commit_batch, sent = done
        await self.runtime.wait_async(commit_batch)
        return sent

    def send_many(self, bodies: Iterable[Any], **options: Unpack[SendOptions]) -> list[str | None]:
        """Send many messages with the same options, in one commit; an `Outgoing` among them has its own.

        Gives their ids; None for one that a full queue refused.
        """
        batch, options = _batch(bodies, options)
        commit_batch, sent = self._send_bytes(batch, options) or self.post_many_large(batch, **options)
        self.runtime.wait(commit_batch)
        return sent

    async def _asend_many(self, bodies: Iterable[Any], **options: Unpack[SendOptions]) -> list[str | None]:
        """The same as send_many, for asyncio."""
        batch, options = _batch(bodies, options)
        done = self.post_many(batch, **options)
        if done is None:
            done = await asyncio.to_thread(self.post_many_large, batch, **options)
        commit_batch, sent = done
        await self.runtime.wait_async(commit_batch)
        return sent

    # Receiving

    def receive(self, count: int = 1, wait: float = 0, *, visibility_timeout: float | None = None) -> list[Message]:
        """Take up to `count` messages; when there is none, wait up to `wait` seconds, by default not at all."""
        taken, waiting = self._receive(ThreadWaiter, count, wait, visibility_timeout)
        return taken if waiting is None else finish(waiting)

    async def _areceive(
        self, count: int = 1, wait: float = 0, *, visibility_timeout: float | None = None
    ) -> list[Message]:
        """The same as receive, for asyncio."""
        taken, waiting = self._receive(TaskWaiter, count, wait, visibility_timeout)
        return taken if waiting is None else await waiting

    def _receive(
        self, new_waiter: type[ThreadWaiter | TaskWaiter], count: int, wait: float, visibility_timeout: float | None
    ) -> tuple[list[Message], Steps[list[Message]] | None]:
        """Take what there is; when there is nothing, what waits for it."""
        lease_ms = self.lease_of(count, visibility_timeout)
        with self.runtime as core:
            taken = wrap(self, self.core.take(count, lease_ms))
            if taken or wait <= 0:
                return taken, None
            waiter = new_waiter()
            until_ms = core.now_ms + milliseconds("wait", wait)
            self.runtime.waiters.join(self._core, waiter)
        return taken, self._wait(waiter, until_ms, count, lease_ms)

    def take_waiting(self, waiter: ThreadWaiter) -> list[Message]:
        """Take one message, however long it takes to come; nothing when the waiter is stopped."""
        taken = self.take(1, None, waiter=waiter)
        return taken or finish(self._wait(waiter, self.runtime.clock.now_ms() + TIME_MS_MAX, 1, None))

    async def _wait(
        self, waiter: ThreadWaiter | TaskWaiter, until_ms: int, count: int, lease_ms: int | None
    ) -> list[Message]:
        """Wait until there is something to take, or it is time to give up."""
        try:
            while True:
                in_time = await waiter.wait(self.runtime.clock, until_ms)
                taken = self.take(count, lease_ms, waiter=waiter, again=True)
                if taken or not in_time or waiter.stopped:
                    return taken
        finally:
            self.stop_waiting(waiter)

    def __iter__(self) -> Iterator[Message]:
        """Take message after message, for as long as the broker is open."""
        try:
            while True:
                yield from self.receive(1, FOREVER_S)
        except BrokerClosed:
            return

    async def __aiter__(self) -> AsyncIterator[Message]:
        try:
            while True:
                for message in await self._areceive(1, FOREVER_S):
                    yield message
        except BrokerClosed:
            return

    async def _aack_many(self, messages: Iterable[Message]) -> None:
        """The same as ack_many, which never waits."""
        self.ack_many(messages)

    # Pushing and working

    def consume(self, callback: Callable[[Message], object], **options: Unpack[ConsumerOptions]) -> Subscription:
        """Call back for each message, in a thread; options: prefetch, priority, exclusive, tag.

        The callback settles the message; one that raises gives it back.
        """
        subscription = Subscription(self, callback, **options)
        subscription.start()
        self.broker.running.add(subscription)
        return subscription

    def worker(self, **options: Unpack[WorkerOptions]) -> Callable[[Handler], Worker]:
        """Decorate a function to be called with each message; options: concurrency, idempotent, name."""

        return lambda handler: Worker(self, handler, **options).start(self.broker.running)

    @property
    def clock(self) -> Clock:
        """What tells the time to workers."""
        return self.runtime.clock

    def flush(self) -> None:
        """Return when everything that was done until now is durable."""
        self.runtime.flush()

    def processed(self, name: str) -> Processed:
        """What workers of that name have done."""
        return Processed(self, memory_of(self), name)

    def run(self, handler: Handler, **options: Unpack[WorkerOptions]) -> None:
        """Work with a function until a signal comes or the broker is closed; raises what ended it otherwise."""
        Worker(self, handler, **options).run(self.broker.running)
