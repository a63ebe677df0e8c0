"""The broker as handlers of HTTP use it: in the thread of the loop, without a task or a thread for each request.

    send    -> under the lock -> commit batch of the journal -> answered when that is on the disk
    receive -> under the lock -> answered at once, or a Poll that is woken by what comes

Each verb gives its answer or something to await, which is what a handler may give.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from leveret.core.broker import Broker as Core
from leveret.core.errors import LeveretError, QueueNotFound, TooMany
from leveret.runtime.declare import VHOST, milliseconds
from leveret.runtime.durability import LoopThread, PendingAnswer
from leveret.runtime.managed import ManagedQueue
from leveret.runtime.message import Message
from leveret.runtime.outgoing import Outgoing
from leveret.runtime.queue import RuntimeQueue
from leveret.runtime.runtime import Runtime
from leveret.runtime.verbs import Durable
from leveret.security.access import Access

POLLS_MAX = 20_000  # each has a timer, a future and a place in a line
ANSWER_BYTES_MAX = 4 << 20  # of messages in one answer, which is in memory some times over; one message always fits

T = TypeVar("T")


class AsyncBroker:
    """One for all requests of a loop; to be closed before the broker is."""

    def __init__(self, runtime: Runtime, polls_max: int = POLLS_MAX, access: Access | None = None) -> None:
        """Serve the running loop; requests of a user whose rights change in `access` wait no longer."""
        self.runtime = runtime
        self.loop = asyncio.get_running_loop()
        self.polls: set[WaitingRequest] = set()
        self._polls_max = polls_max
        self.thread = LoopThread()
        self.when_durable = runtime.commits.notifier().when_durable
        self._changed_users: set[str | None] = set()
        if access is not None:
            access.watchers.add(self)

    def access_changed(self, user: str | None) -> None:
        """See Watcher: who waits is answered now, has nothing, and is authorized anew when it asks again."""
        self._changed_users.add(user)
        if len(self._changed_users) == 1:
            self.thread.call(self._end_polls)

    def _end_polls(self) -> None:
        """Once for all changes of a turn: an import has thousands."""
        users, self._changed_users = self._changed_users, set()
        for poll in [each for each in self.polls if None in users or each.user in users]:
            poll.end()

    def close(self) -> None:
        """Answer every request that waits for messages: there are none."""
        for poll in list(self.polls):
            poll.end()

    def queue(self, name: str, vhost: str = VHOST) -> ManagedQueue:
        # Without the lock: it is one look into a dictionary, and the verbs look again whether the queue is still there.
        topology = self.runtime.core.topology
        found = (topology.vhosts.get(vhost) or topology.vhost(vhost)).queues.get(name)
        if found is None:
            raise QueueNotFound(f"no queue '{name}' in vhost '{vhost}': create it first")
        return ManagedQueue(self.runtime, found)

    # What waits for the disk

    def change(self, action: Callable[[Core], T]) -> T | Awaitable[T]:
        """Do something to the core, under its lock; give the result when it is durable."""
        with self.runtime as core:
            result = action(core)
            commit_batch = self.runtime.commit()
        return self.when_durable(commit_batch, result)

    def committed(self, result: T) -> T | PendingAnswer[T]:
        """Give a result when everything that was done until now is durable: after an ack, say."""
        with self.runtime:
            commit_batch = self.runtime.commit()
        return self.when_durable(commit_batch, result)

    def durably(self, verb: Callable[[], Durable[T]]) -> asyncio.Future[T]:
        """Change something in another thread; give the outcome when it is durable."""

        def changed() -> T:
            commit_batch, outcome = verb()
            self.runtime.wait(commit_batch)
            return outcome

        return self.in_thread(changed)

    def in_thread(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Call a function that waits (the verbs of queues for operators, hashing) in another thread."""
        return self.loop.run_in_executor(None, function)

    # Messages

    def send(self, queue: RuntimeQueue, message: Outgoing, answer: Callable[[str], T]) -> T | Awaitable[T]:
        """Send a message; give what `answer` makes of its id when it is durable."""
        done = queue.post(message)
        if done is None:
            return self._send_large(queue, message, answer)
        commit_batch, sent = done
        return self.when_durable(commit_batch, answer(sent))

    def send_many(
        self, queue: RuntimeQueue, messages: list[Outgoing], answer: Callable[[list[str | None]], T]
    ) -> T | Awaitable[T]:
        """Send many in one commit; an id is None where the queue was full."""
        done = queue.post_many(messages)
        if done is None:
            return self._send_many_large(queue, messages, answer)
        commit_batch, sent = done
        return self.when_durable(commit_batch, answer(sent))

    async def _send_large(self, queue: RuntimeQueue, message: Outgoing, answer: Callable[[str], T]) -> T:
        commit_batch, sent = await self.in_thread(partial(queue.post_large, message))
        await self.runtime.wait_async(commit_batch)
        return answer(sent)

    async def _send_many_large(
        self, queue: RuntimeQueue, messages: list[Outgoing], answer: Callable[[list[str | None]], T]
    ) -> T:
        commit_batch, sent = await self.in_thread(partial(queue.post_many_large, list(messages)))
        await self.runtime.wait_async(commit_batch)
        return answer(sent)

    def receive(
        self,
        queue: RuntimeQueue,
        answer: Callable[[list[Message]], T],
        count: int = 1,
        *,
        wait_s: float = 0,
        lease_s: float | None = None,
        consumer: str | None = None,
        user: str | None = None,
    ) -> T | asyncio.Future[T]:
        """Take messages; when there is none, wait up to `wait_s` for the first. Gives what `answer` makes of them."""
        lease_ms = queue.lease_of(count, lease_s)
        taken = queue.take(count, lease_ms, ANSWER_BYTES_MAX, consumer)
        if taken or wait_s <= 0:
            return answer(taken)
        self.check_polls()
        poll = Poll(self, queue, answer, count, lease_ms, consumer, user)
        return poll.start(milliseconds("wait", wait_s) / 1000)

    def check_polls(self) -> None:
        """Refuse one more request that waits than there may be."""
        if len(self.polls) >= self._polls_max:
            raise TooMany(
                f"{self._polls_max} requests wait for messages, which is the limit: ask again without waiting"
            )


class WaitingRequest(Protocol):
    """A request that waits for something to come."""

    @property
    def user(self) -> str | None: ...  # who asks
    def end(self) -> None: ...  # answer it: nothing has come


class Poll:
    """A request that waits for messages of a queue; see Waiters."""

    __slots__ = ("_answer", "_asked", "_async_broker", "_future", "_queue", "_timer", "user")

    def __init__(
        self,
        async_broker: AsyncBroker,
        queue: RuntimeQueue,
        answer: Callable[[list[Message]], Any],
        count: int,
        lease_ms: int | None,
        consumer: str | None = None,
        user: str | None = None,
    ) -> None:
        self.user = user
        self._async_broker = async_broker
        self._queue = queue
        self._answer = answer
        self._asked = count, lease_ms, ANSWER_BYTES_MAX, consumer
        self._future: asyncio.Future[Any] = async_broker.loop.create_future()
        self._timer: asyncio.TimerHandle | None = None

    def start(self, wait_s: float) -> asyncio.Future[Any]:
        taken = self._queue.take(*self._asked, waiter=self)
        if taken:
            self._future.set_result(self._answer(taken))
            return self._future
        self._async_broker.polls.add(self)
        self._timer = self._async_broker.loop.call_later(wait_s, self.end)
        self._future.add_done_callback(self._leave)
        return self._future

    def wake(self) -> None:
        """There may be something to take; under the lock of the broker, in whatever thread."""
        self._async_broker.thread.call(self._look)

    def _look(self) -> None:
        """Take what there is; wait on when another was quicker."""
        if self._future.done():
            return
        try:
            taken = self._queue.take(*self._asked, waiter=self, again=True)
        except LeveretError as error:
            self._future.set_exception(error)
            return
        if taken:
            self.finish(taken)

    def end(self) -> None:
        self.finish([])

    def finish(self, taken: list[Message]) -> None:
        if self._future.done():
            return
        try:
            self._future.set_result(self._answer(taken))
        except Exception as error:
            self._future.set_exception(error)

    def _leave(self, future: asyncio.Future[Any]) -> None:
        """Wait no more; what is still there is for the next one."""
        self._async_broker.polls.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        self._queue.stop_waiting(self)
