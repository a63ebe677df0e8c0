"""Workers: threads that take messages, call a function with each, and settle it by what the function does.

    returns         acknowledged
    raises Reject   a dead letter
    raises          requeued, and redelivered after the backoff of its queue

While the function runs the lease is extended at half of the visibility timeout, however long it takes.

Draining on SIGTERM and SIGINT: the first signal lets work at hand finish, the second one acts as it always did.

Signals are of the process, so all its workers are drained together. When the last of them is done, a thread that waits
for one of them goes on; if none does, the signal does at last what it used to do.
"""

import asyncio
import inspect
import logging
import os
import signal
import threading
from collections.abc import Callable, MutableSet, Sequence
from contextlib import nullcontext, suppress
from types import FrameType
from typing import Any, Protocol, Self

from leveret.core.errors import BrokerClosed, InvalidArgument, InvalidReceipt, LeveretError, QueueNotFound, Unreachable
from leveret.observability.propagation import processing
from leveret.runtime.leases import Extender, Leased, LeasedMessage
from leveret.runtime.waiters import ThreadWaiter

SIGNALS = (signal.SIGTERM, signal.SIGINT)
Stop = Callable[[], None]


class WorkerSignals:
    """The signal handlers of all workers; without effect until one of them is started in the main thread."""

    def __init__(self) -> None:
        self._working: list[Stop] = []
        self._mutex = threading.Lock()
        self._previous: dict[int, Any] = {}
        self._received = 0
        self._awaited = False

    def enter(self, stop: Stop, awaited: bool) -> None:
        """A worker begins; `stop` is called by the signal handler, so it must not take locks."""
        with self._mutex:
            if not self._working:
                self._received, self._awaited = 0, False
            self._awaited = self._awaited or awaited
            self._working.append(stop)
        if threading.current_thread() is threading.main_thread() and not self._previous:
            self._previous = {number: signal.signal(number, self._handle) for number in SIGNALS}

    def await_end(self) -> None:
        """A thread waits for the end of a worker, and goes on after it."""
        self._awaited = True

    def leave(self, stop: Stop) -> None:
        with self._mutex:
            self._working.remove(stop)
            over = not self._working and self._received and not self._awaited
        if over:
            os.kill(os.getpid(), self._received)

    def restore(self) -> None:
        """Put back what was there before the first worker, when there is none any more; only the main thread can."""
        if threading.current_thread() is threading.main_thread() and not self._working:
            self._restore()

    def _restore(self) -> None:
        previous, self._previous = self._previous, {}
        for number, handler in previous.items():
            if signal.getsignal(number) == self._handle:
                signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _handle(self, number: int, commit_batch: FrameType | None) -> None:
        """Stop all workers, and wake the thread that waits for the stop. Takes no lock."""
        previous = self._previous.get(number)
        self._received = number
        working = list(self._working)
        for stop in working:
            stop()
        self._restore()
        if callable(previous):
            # Python's own handler raises KeyboardInterrupt, and so does Spark's: work at hand is drained instead.
            with suppress(KeyboardInterrupt) if working else nullcontext():
                previous(number, commit_batch)
        elif not working:
            os.kill(os.getpid(), number)


DRAIN = WorkerSignals()
"""The one of this process."""


CONCURRENCY_MAX = 1_000  # each is a thread
JOIN_SLICE_S = 0.5
Handler = Callable[[Any], Any]
_log = logging.getLogger("leveret.worker")


class ProcessedMemory(Protocol):
    """What remembers the messages that were handled."""

    def has(self, message: Any) -> bool:
        """Whether a message was handled before."""

    def finish(self, message: Any) -> None:
        """Remember a handled message and acknowledge it."""


class Source(Leased, Protocol):
    """A queue that workers can work on: here, or on a server."""

    @property
    def name(self) -> str:
        """Its name."""

    def take_waiting(self, waiter: ThreadWaiter) -> Sequence[LeasedMessage]:
        """Take a message, however long it takes to come; nothing when the waiter is stopped."""

    def flush(self) -> None:
        """Return when what was done is durable."""

    def processed(self, name: str) -> ProcessedMemory:
        """The memory of workers of that name."""


class Reject(Exception):
    """Raised by a handler: the message will never work, make it a dead letter."""


class Worker:
    """A function at work on a queue, from queue.worker(); it can still be called as the function that it is.

    `stop` lets the messages at hand finish. SIGTERM and SIGINT do the same when it was started in the main thread.
    """

    def __init__(
        self, source: Source, handler: Handler, *, concurrency: int = 8, idempotent: bool = False, name: str = "worker"
    ) -> None:
        """Use queue.worker() or queue.run(); `name` is whose memory `idempotent` uses."""
        if type(concurrency) is not int or not 1 <= concurrency <= CONCURRENCY_MAX:
            raise InvalidArgument(f"concurrency is 1 to {CONCURRENCY_MAX}, not {concurrency!r}")
        self._source = source
        self._handler = handler
        self._processed = source.processed(name) if idempotent else None
        self._extender = Extender(source)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters = [ThreadWaiter() for _ in range(concurrency)]
        self._threads = [
            threading.Thread(target=self._run, args=(waiter,), name=f"leveret-{source.name}-{number}", daemon=True)
            for number, waiter in enumerate(self._waiters)
        ]
        self._closer = threading.Thread(target=self._close, name=f"leveret-{source.name}-end", daemon=True)
        self.failure: LeveretError | None = None  # what ended it, if it was not told to end

    def __call__(self, message: Any) -> Any:
        return self._handler(message)

    def start(self, running: MutableSet[Any], awaited: bool = False) -> Self:
        """Begin to take messages, as one of `running`; `awaited` says that the caller is going to wait for the end."""
        if inspect.iscoroutinefunction(self._handler):
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._run_loop, args=(self._loop,), name="leveret-loop", daemon=True).start()
        DRAIN.enter(self.stop_soon, awaited)
        for thread in self._threads:
            thread.start()
        self._closer.start()
        running.add(self)
        return self

    def run(self, running: MutableSet[Any]) -> None:
        """Work until a signal comes or the broker is closed; raises what ended it otherwise."""
        self.start(running, awaited=True).join()
        if self.failure is not None:
            raise self.failure

    def stop_soon(self) -> None:
        """Take no more messages; those at hand are finished. Takes no lock: a signal handler may call it."""
        for waiter in self._waiters:
            waiter.stop()

    def stop(self, timeout: float | None = None) -> bool:
        """Take no more messages and wait for those at hand; False when the time was not enough."""
        self.stop_soon()
        return self.join(timeout)

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the worker has stopped; False when the time was not enough."""
        if threading.current_thread() in self._threads:
            return False  # a handler that stops its own worker cannot wait for itself
        DRAIN.await_end()
        # Python handles a signal that came just before a wait only after it: so the wait is in slices.
        left_s = threading.TIMEOUT_MAX if timeout is None else timeout
        while self._closer.is_alive() and left_s > 0:
            self._closer.join(min(left_s, JOIN_SLICE_S))
            left_s -= JOIN_SLICE_S
        if self._closer.is_alive():
            return False
        DRAIN.restore()
        return True

    def _close(self) -> None:
        """After the last message: make its acknowledgement durable, let go of everything."""
        for thread in self._threads:
            thread.join()
        self._extender.stop()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
        with suppress(LeveretError):
            self._source.flush()
        DRAIN.leave(self.stop_soon)

    def _run_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """The thread of coroutine handlers."""
        loop.run_forever()
        loop.close()

    def _run(self, waiter: ThreadWaiter) -> None:
        try:
            while not waiter.stopped:
                for message in self._source.take_waiting(waiter):
                    self._work(message)
        except (BrokerClosed, QueueNotFound):
            return
        except LeveretError as error:
            self.failure = error
            self.stop_soon()
            _log.exception("a worker of queue %r stops", self._source.name)

    def _work(self, message: LeasedMessage) -> None:
        if self._processed is not None and self._processed.has(message):
            self._settle(message, message.ack)
            return
        self._extender.hold(message)
        try:
            self._call(message)
        except Reject:
            self._settle(message, message.reject)
        except Exception:
            _log.exception("message %s of queue %r failed", message.id, self._source.name)
            self._settle(message, message.nack)
        else:
            self._settle(message, self._finish(message))
        finally:
            self._extender.release(message)

    def _call(self, message: LeasedMessage) -> None:
        """Run the handler, on the loop if it is a coroutine function."""
        with processing(self._source.name, message.id, message.headers):
            if self._loop is None:
                self._handler(message)
            else:
                asyncio.run_coroutine_threadsafe(self._handler(message), self._loop).result()

    def _finish(self, message: LeasedMessage) -> Callable[[], None]:
        """What settles a handled message."""
        processed = self._processed
        return message.ack if processed is None else lambda: processed.finish(message)

    def _settle(self, message: LeasedMessage, verb: Callable[[], None]) -> None:
        """Settle a message; the handler may have done so itself, or its lease may have ended."""
        try:
            verb()
        except InvalidReceipt as error:
            _log.debug("message %s was settled before its handler ended: %s", message.id, error)
        except Unreachable as error:
            _log.warning("message %s was handled and may be redelivered: %s", message.id, error)
