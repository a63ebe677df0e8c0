"""The connection of a client for tasks: a transport of their loop, written to once for each turn of it."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import nullcontext, suppress
from typing import cast

from leveret.client.amqp.channels import Pending, Publish
from leveret.client.amqp.connection import ClientConnection
from leveret.client.amqp.link import CLOSED, Link, now_ms
from leveret.client.amqp.servers import AmqpServer
from leveret.core.errors import BrokerClosed, LeveretError, Unreachable

SWEEP_S = 0.5
CLOSE_S = 5.0


class TaskPending(Pending):
    """What a task waits for."""

    __slots__ = ("future",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.done, self.error, self.result = False, None, None
        self.future: asyncio.Future[None] = loop.create_future()

    def wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class TaskLink(Link, asyncio.Protocol):
    """A connection for the tasks of one event loop."""

    def __init__(self, connection: ClientConnection, timeout_s: float) -> None:
        super().__init__(connection, timeout_s)
        self.lock = nullcontext()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._lost: asyncio.Future[LeveretError] | None = None
        self._noted = False
        self._wanted: asyncio.Event | None = None
        self._ended: asyncio.Event | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._limits: deque[tuple[float, TaskPending]] = deque()
        self._sweeper: asyncio.TimerHandle | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop of the task that asks first."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._wanted, self._ended = asyncio.Event(), asyncio.Event()
        return self._loop

    def pending(self) -> TaskPending:
        return TaskPending(self.loop)

    async def confirm(self, publish: Publish) -> None:
        """The same in one step where there is room: for thousands of tasks that send."""
        publisher = self.connection.publisher
        if self.closing or publisher.full or self._sweeper is None:
            return await super().confirm(publish)
        publish.pending = pending = TaskPending(self.loop)
        publisher.add(publish)
        self.touch()
        self._limits.append((self.loop.time() + self.timeout_s, pending))
        try:
            await pending.future
        except asyncio.CancelledError:
            pending.finish(error=BrokerClosed("the task was cancelled"))
            raise
        if pending.error is not None:
            raise pending.error.with_traceback(None)
        return None

    async def wait(self, pending: Pending, seconds: float | None) -> bool:
        waiting = cast("TaskPending", pending)
        if seconds == self.timeout_s:  # of all calls: a timer for each would cost as much as the call
            self._limits.append((self.loop.time() + seconds, waiting))
            if self._sweeper is None:
                self._sweeper = self.loop.call_later(SWEEP_S, self._sweep)
            try:
                await waiting.future
            except asyncio.CancelledError:
                waiting.finish(error=BrokerClosed("the task was cancelled"))
                raise
            return True
        try:
            async with asyncio.timeout(seconds):
                await waiting.future
        except TimeoutError:
            return False
        return True

    def _sweep(self) -> None:
        """Give up what was not answered in time."""
        now = self.loop.time()
        while self._limits and (self._limits[0][1].done or self._limits[0][0] <= now):
            pending = self._limits.popleft()[1]
            pending.finish(error=self.connection.explain(self.timeout_s))
        self._sweeper = self.loop.call_later(SWEEP_S, self._sweep) if self._limits else None

    async def rest(self, seconds: float) -> None:
        if seconds and self.loop and self._ended is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._ended.wait()

    def touch(self) -> None:
        if self._task is None:
            self._task = self.loop.create_task(self._drive(), name="leveret-amqp")
        if self._transport is None:
            if self._wanted is not None:
                self._wanted.set()
        elif not self._noted:
            self._noted = True
            self.loop.call_soon(self._flush)

    touch_soon = touch

    def _flush(self) -> None:
        self._noted = False
        if self._transport is not None and (data := self.connection.take(now_ms())):
            self._transport.write(data)

    async def _idle(self) -> None:
        assert self._wanted is not None
        self._wanted.clear()
        await self._wanted.wait()

    async def _connect(self, server: AmqpServer, connect_s: float) -> None:
        self._lost = self.loop.create_future()
        async with asyncio.timeout(connect_s):
            await self.loop.create_connection(lambda: self, server.host, server.port, ssl=server.tls)

    async def _serve(self) -> LeveretError:
        assert self._lost is not None
        try:
            self._tick()
            return await self._lost
        finally:
            if self._timer is not None:
                self._timer.cancel()
            if self._transport is not None:
                self._transport.abort()
                self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self.connection.begin(now_ms()))

    def data_received(self, data: bytes) -> None:
        try:
            self.connection.receive(data, now_ms())
        except LeveretError as error:
            self._flush()
            self._end(error)
        else:
            self.touch()

    def connection_lost(self, error: Exception | None) -> None:
        self._end(Unreachable(f"the server closed the connection ({error or 'see its log'}): see whether it runs"))

    def _end(self, error: LeveretError) -> None:
        if self._lost is not None and not self._lost.done():
            self._lost.set_result(error)

    def _tick(self) -> None:
        try:
            due = self.connection.tick(now_ms())
        except LeveretError as error:
            return self._end(error)
        self._flush()
        if due is not None:
            self._timer = self.loop.call_later(max(0, due - now_ms()) / 1000, self._tick)
        return None

    async def close(self) -> None:
        if self.closing:
            return
        self.closing = True
        waits = self.connection.close()
        if self._task is None:
            self.connection.fail(BrokerClosed(CLOSED))
            return
        assert self._ended is not None
        assert self._wanted is not None
        self._ended.set()
        self._wanted.set()
        if self._transport is None:
            self._task.cancel()
        self.touch()
        if waits and self._lost is not None:
            await asyncio.wait([self._lost], timeout=CLOSE_S)
        self._end(BrokerClosed(CLOSED))
        await asyncio.wait([self._task])
        if self._sweeper is not None:
            self._sweeper.cancel()
