"""The broker in this process for asyncio, from leveret.aopen(): the verbs of the objects for threads, awaited.

Names and parameters are those of what leveret.aconnect() gives. What are attributes for threads are verbs for tasks.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self, Unpack

from leveret.clock import Clock
from leveret.embedded.broker import Broker, open
from leveret.embedded.exchange import Exchange
from leveret.embedded.group import SESSION_S, AsyncGroupConsumer, Group
from leveret.embedded.queue import Queue
from leveret.embedded.stream import Stream
from leveret.runtime.keywords import (
    Conditions,
    ExchangeOptions,
    OpenOptions,
    QueueOptions,
    ReaderOptions,
    StreamSettings,
)
from leveret.runtime.message import AsyncMessage, as_async
from leveret.runtime.reading import Place, StreamReader, StreamRecord
from leveret.runtime.redrive import RedriveResult
from leveret.runtime.verbs import AsyncPart, at_once, awaits, in_thread


class AsyncQueue(AsyncPart[Queue]):
    """One queue for asyncio. See leveret.Queue."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """Its name."""
        return self.sync.name

    async def durable(self) -> bool:
        """Whether it survives a restart."""
        return self.sync.durable

    async def arguments(self) -> dict[str, Any]:
        """What it was declared with, as AMQP clients know it."""
        return self.sync.arguments

    async def display_name(self) -> str | None:
        """What people call it, if that is not its name."""
        return self.sync.display_name

    async def created_at(self) -> datetime | None:
        """When it was declared first."""
        return self.sync.created_at

    async def lease_ms(self) -> int:
        """How long a message is taken for; 0: for ever."""
        return self.sync.lease_ms

    send = awaits(Queue._asend)
    send_many = awaits(Queue._asend_many)

    async def receive(
        self, count: int = 1, wait: float = 0, *, visibility_timeout: float | None = None
    ) -> list[AsyncMessage]:
        """Take up to `count` messages; when there is none, wait up to `wait` seconds, by default not at all."""
        return as_async(await self.sync._areceive(count, wait, visibility_timeout=visibility_timeout))

    async def __aiter__(self) -> AsyncIterator[AsyncMessage]:
        async for message in self.sync:
            for each in as_async([message]):
                yield each

    ack = at_once(Queue.ack)
    nack = at_once(Queue.nack)
    extend = at_once(Queue.extend)
    reject = at_once(Queue.reject)

    async def ack_many(self, messages: Iterable[AsyncMessage]) -> None:
        """Done with all these messages. See leveret.Queue.ack_many."""
        self.sync.ack_many(messages)

    stats = at_once(Queue.stats)
    browse = awaits(in_thread(Queue.browse))
    scheduled = awaits(in_thread(Queue.scheduled))
    cancel = awaits(Queue._acancel)
    purge = awaits(Queue._apurge)
    pause = awaits(Queue._apause)
    resume = awaits(Queue._aresume)
    delete = awaits(Queue._adelete)
    discard = awaits(Queue._adiscard)

    async def redrive(
        self,
        /,
        to: str | AsyncQueue | None = None,
        *,
        limit: int | None = None,
        rate: float | None = None,
        dry_run: bool = False,
        **conditions: Unpack[Conditions],
    ) -> RedriveResult:
        """Move messages to another queue. See leveret.Queue.redrive."""
        target = to.sync if isinstance(to, AsyncQueue) else to
        return await self.sync._aredrive(target, limit=limit, rate=rate, dry_run=dry_run, **conditions)


class AsyncExchange(AsyncPart[Exchange]):
    """One exchange for asyncio. See leveret.Exchange."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """Its name."""
        return self.sync.name

    publish = awaits(Exchange._apublish)
    delete = awaits(Exchange._adelete)

    async def bind(
        self, to: str | AsyncQueue | AsyncExchange, key: str = "", arguments: Mapping[str, Any] | None = None
    ) -> None:
        """Hand messages with a matching routing key to a queue (by name too) or to another exchange."""
        await self.sync._abind(to if isinstance(to, str) else to.sync, key, arguments)

    async def unbind(
        self, to: str | AsyncQueue | AsyncExchange, key: str = "", arguments: Mapping[str, Any] | None = None
    ) -> None:
        """Remove a binding; a missing one is no error."""
        await self.sync._aunbind(to if isinstance(to, str) else to.sync, key, arguments)


class AsyncReader(AsyncPart[StreamReader]):
    """Reads one partition of a stream; for one task at a time."""

    __slots__ = ()

    @property
    def partition(self) -> int:
        """The partition that it reads."""
        return self.sync.partition

    @property
    def offset(self) -> int:
        """The offset of the next record that it gives, or a later one."""
        return self.sync.offset

    read = awaits(StreamReader._aread)
    close = at_once(StreamReader.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.sync.close()


class AsyncGroup(AsyncPart[Group]):
    """One group of readers for asyncio. See leveret.Group."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """Its name."""
        return self.sync.name

    async def generation(self) -> int:
        """Which one it is in: each change of its members begins another."""
        return self.sync.generation

    async def members(self) -> dict[str, tuple[int, ...]]:
        """Every member with its partitions."""
        return self.sync.members

    async def committed(self) -> dict[int, int]:
        """What was committed, by partition."""
        return self.sync.committed

    join = awaits(Group._ajoin)
    heartbeat = at_once(Group.heartbeat)
    leave = at_once(Group.leave)
    commit = awaits(Group._acommit)
    position = at_once(Group.position)
    lag = at_once(Group.lag)
    reset = awaits(Group._areset)
    delete = awaits(Group._adelete)

    def consumer(self, member: str | None = None, *, session: float = SESSION_S) -> AsyncGroupConsumer:
        """A member that joins, reads its share, and joins again after a change; for an `async with` block."""
        return AsyncGroupConsumer(self.sync, member, session)


class AsyncStream(AsyncPart[Stream]):
    """One stream for asyncio. See leveret.Stream."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """Its name."""
        return self.sync.name

    async def partitions(self) -> int:
        """How many partitions it has."""
        return self.sync.partitions

    send = awaits(Stream._asend)
    send_many = awaits(Stream._asend_many)
    read = awaits(Stream._aread)
    earliest = at_once(Stream.earliest)
    latest = at_once(Stream.latest)
    at = at_once(Stream.at)
    stats = at_once(Stream.stats)
    delete = awaits(Stream._adelete)

    async def reader(self, partition: int = 0, offset: Place = "next", **filters: Unpack[ReaderOptions]) -> AsyncReader:
        """A place in one partition that moves on as it is read. See leveret.Stream.reader."""
        return AsyncReader(self.sync.reader(partition, offset, **filters))

    def iterate(
        self, partition: int = 0, offset: Place = "next", **filters: Unpack[ReaderOptions]
    ) -> AsyncIterator[StreamRecord]:
        """Record after record, for as long as the broker is open."""
        return self.sync._aiterate(partition, offset, **filters)

    async def group(self, name: str) -> AsyncGroup:
        """The consumer group of that name, made if need be: readers that share the partitions among them."""
        return AsyncGroup(await self.sync._agroup(name))

    async def groups(self) -> list[AsyncGroup]:
        """Every group that reads this stream, by name."""
        return [AsyncGroup(each) for each in self.sync.groups()]


class AsyncEmbeddedBroker(AsyncPart[Broker]):
    """A broker in this process for asyncio, from leveret.aopen(). See leveret.Broker."""

    __slots__ = ()

    async def queue(
        self,
        /,
        name: str,
        *,
        durable: bool = True,
        arguments: Mapping[str, Any] | None = None,
        create: bool = True,
        **options: Unpack[QueueOptions],
    ) -> AsyncQueue:
        """The queue of that name, made if need be. See leveret.Broker.queue."""
        made = await self.sync._aqueue(name, durable=durable, arguments=arguments, create=create, **options)
        return AsyncQueue(made)

    async def queues(self) -> list[AsyncQueue]:
        """Every queue, by name."""
        return [AsyncQueue(each) for each in self.sync.queues()]

    async def stream(self, name: str, **options: Unpack[StreamSettings]) -> AsyncStream:
        """The stream of that name, made if need be. See leveret.Broker.stream."""
        return AsyncStream(await self.sync._astream(name, **options))

    async def streams(self) -> list[AsyncStream]:
        """Every stream, by name."""
        return [AsyncStream(each) for each in self.sync.streams()]

    async def exchange(
        self, /, name: str, type: str | None = None, **options: Unpack[ExchangeOptions]
    ) -> AsyncExchange:
        """The exchange of that name, made if need be (direct unless told otherwise)."""
        return AsyncExchange(await self.sync._aexchange(name, type, **options))

    policy = awaits(Broker._apolicy)
    delete_policy = awaits(Broker._adelete_policy)
    stats = at_once(Broker.stats)
    flush = awaits(Broker._aflush)
    close = awaits(Broker._aclose)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class OpeningBroker:
    """A broker that is opened by `async with`, or when it is awaited."""

    def __init__(self, open: Callable[[], Broker]) -> None:
        self._open = open
        self._opened: AsyncEmbeddedBroker | None = None

    async def _begin(self) -> AsyncEmbeddedBroker:
        self._opened = AsyncEmbeddedBroker(await asyncio.to_thread(self._open))
        return self._opened

    def __await__(self) -> Generator[Any, None, AsyncEmbeddedBroker]:
        return self._begin().__await__()

    async def __aenter__(self) -> AsyncEmbeddedBroker:
        return await self._begin()

    async def __aexit__(self, *raised: object) -> None:
        assert self._opened is not None, "it was entered"
        await self._opened.close()


def aopen(
    path: str | os.PathLike[str] | None = None, *, clock: Clock | None = None, **options: Unpack[OpenOptions]
) -> OpeningBroker:
    """The same as open, for asyncio: `async with leveret.aopen(path) as broker`, then the same verbs, awaited.

    `broker = await leveret.aopen(path)` opens it without a block: close it by `await broker.close()`.
    """
    return OpeningBroker(partial(open, path, clock=clock, **options))
