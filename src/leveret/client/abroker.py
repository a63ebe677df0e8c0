"""A server as its clients in asyncio see it: leveret.aconnect()."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from leveret.client import calls, stream_calls
from leveret.client.apool import AsyncPool
from leveret.client.aqueue import AsyncRemoteQueue
from leveret.client.astream import AsyncRemoteStream
from leveret.client.calls import ClientCall, Row
from leveret.client.exchange import AsyncRemoteExchange
from leveret.client.pool import AnswerLost
from leveret.client.retry import Again
from leveret.client.target import URL, ClientOptions, ClientTarget
from leveret.clock import SystemClock
from leveret.core.errors import BrokerClosed, ExchangeNotFound

T = TypeVar("T")


class AsyncRemoteBroker:
    """A broker on a server, from leveret.aconnect(), for the tasks of one loop. See leveret.RemoteBroker."""

    def __init__(self, target: ClientTarget) -> None:
        self.clock = SystemClock()
        self._target = target
        self._pool = AsyncPool(target.servers)
        self.new_key = target.new_key
        self._closed = False

    async def run(self, call: ClientCall[T]) -> T:
        """Ask until there is an answer, or no hope."""
        request, attempts = partial(self._target.request, call), self._target.attempts()
        while True:
            if self._closed:
                raise BrokerClosed("the client was closed: open it again with leveret.aconnect()")
            try:
                answer = await self._pool.ask(request, self._target.timeout_s + call.wait_s, call.again)
            except AnswerLost as lost:
                delay_s = attempts.lost(call, lost.sent, lost.reason)
            else:
                found = attempts.answered(call, answer)
                if not isinstance(found, Again):
                    return found
                delay_s = found.delay_s
            await asyncio.sleep(delay_s)

    async def queue(
        self,
        name: str,
        *,
        declare: bool = True,
        durable: bool = True,
        arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> AsyncRemoteQueue:
        """The queue of that name, made if need be; options that contradict an existing one are refused.

        declare=False asks nothing: for those who may only send or receive.
        """
        if declare:
            await self.run(calls.declare(name, durable, arguments, options))
        return AsyncRemoteQueue(self, name)

    async def queues(self) -> list[AsyncRemoteQueue]:
        """Every queue that one may use, by name."""
        return [AsyncRemoteQueue(self, row["name"]) async for row in self._all(calls.list_queues)]

    async def stream(
        self,
        name: str,
        *,
        declare: bool = True,
        partitions: int | None = None,
        max_age: str | float | timedelta | None = None,
        max_bytes: int | None = None,
        segment_bytes: int | None = None,
    ) -> AsyncRemoteStream:
        """The stream of that name, made if need be; options that contradict an existing one are refused.

        declare=False asks nothing: for those who may only send or read.
        """
        if declare:
            await self.run(stream_calls.declare(name, partitions, max_age, max_bytes, segment_bytes))
        return AsyncRemoteStream(self, name)

    async def streams(self) -> list[AsyncRemoteStream]:
        """Every stream that one may use, by name."""
        return [AsyncRemoteStream(self, row["name"]) async for row in self._all(stream_calls.list_streams)]

    async def _all(self, page: Callable[[str], ClientCall[tuple[list[Row], str | None]]]) -> AsyncIterator[Row]:
        """The rows of all pages of a list."""
        after: str | None = ""
        while after is not None:
            rows, after = await self.run(page(after))
            for row in rows:
                yield row

    async def exchange(self, name: str, type: str | None = None, **options: Any) -> AsyncRemoteExchange:
        """The exchange of that name, made if need be (direct unless told otherwise)."""
        if type is None:
            try:
                await self.run(calls.describe_exchange(name))
                return AsyncRemoteExchange(self, name)
            except ExchangeNotFound:
                type = "direct"
        await self.run(calls.declare_exchange(name, {"type": type, **options}))
        return AsyncRemoteExchange(self, name)

    async def rest(self, seconds: float) -> None:
        """Do nothing for a while."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Close the connections; once more is no error."""
        self._closed = True
        await self._pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncRemoteBroker {self._target.servers!r}>"


def aconnect(url: str = URL, **options: Unpack[ClientOptions]) -> AsyncRemoteBroker:
    """The same as connect, for asyncio: `async with leveret.aconnect(url) as broker`, then the same verbs, awaited."""
    return AsyncRemoteBroker(ClientTarget(url, **options))
