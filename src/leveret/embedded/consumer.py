"""Push: a callback for each message of a queue, in a thread of its own."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING

from leveret.core import dispatch
from leveret.core.consumer import Consumer
from leveret.core.errors import BrokerClosed, InvalidArgument, JournalFailed, LeveretError
from leveret.core.held import Held
from leveret.runtime.message import Message, wrap

if TYPE_CHECKING:
    from leveret.embedded.queue import Queue

PREFETCH_MAX = 65_535  # as in AMQP; what is pushed and not settled waits in memory
_log = logging.getLogger("leveret.consumer")
_numbers = itertools.count(1)


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
