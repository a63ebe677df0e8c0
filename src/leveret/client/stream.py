"""A stream on a server: the verbs of the embedded one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from leveret.client import stream_calls as calls
from leveret.client.calls import Row
from leveret.client.group import AsyncRemoteGroup, GroupVerbs, RemoteGroup
from leveret.client.message import RemoteRecord
from leveret.client.queue import SEND_MAX, WAIT_S_MAX, batches, waits
from leveret.client.session import HasSession, Remote
from leveret.core.errors import BrokerClosed
from leveret.embedded.reading import READ_BYTES, READ_RECORDS
from leveret.embedded.records import Place
from leveret.embedded.stream import Appended, StreamStats
from leveret.embedded.verbs import (
    Asynchronous,
    AsynchronousBlock,
    Closable,
    Threaded,
    ThreadedBlock,
    attribute,
    iteration,
    verb,
)

if TYPE_CHECKING:
    from leveret.client.broker import AsyncRemoteBroker, RemoteBroker


class ReaderVerbs(Closable):
    """What both clients do with a place in one partition of a stream."""

    def __init__(
        self,
        stream: StreamVerbs[Any, Any],
        partition: int,
        place: Place,
        filters: Iterable[str] | None = None,
        match_unfiltered: bool = False,
    ) -> None:
        self.partition = partition
        self.offset = place if isinstance(place, int) else 0
        """Of the next record that it gives, or an earlier one."""
        self._stream = stream.name
        self._ask = stream.broker.session.ask
        self._place: Place = place
        self._options: dict[str, str] = {}
        if filters is not None:
            self._options = {"filters": ",".join(filters), "match_unfiltered": str(match_unfiltered).lower()}

    @verb
    async def read(
        self, max_records: int = READ_RECORDS, *, max_bytes: int = READ_BYTES, wait: float = 0
    ) -> list[RemoteRecord]:
        """The next records; when there is none yet, wait up to `wait` seconds for the first."""
        return await self.next_records(max_records, max_bytes, wait)

    async def next_records(self, max_records: int, max_bytes: int, wait: float) -> list[RemoteRecord]:
        """The same, for what is shared."""
        for wait_s in waits(wait):
            found = await self._fetch(max_records, max_bytes, wait_s)
            self._place = self.offset = found.next_offset
            if found.records:
                return found.records
        return []

    async def find(self) -> None:
        """Be where the place is now: what comes before the first read is to be read, too."""
        found = await self._fetch(1, 1, 0)
        self._place = self.offset = found.records[0].offset if found.records else found.next_offset

    async def _fetch(self, max_records: int, max_bytes: int, wait_s: float) -> calls.FetchedRecords:
        limits = {"max_records": max_records, "max_bytes": max_bytes}
        return await self._ask(calls.read(self._stream, self.partition, self._place, wait_s, **limits, **self._options))


class RemoteReader(ReaderVerbs, ThreadedBlock):
    """Reads one partition of a stream on a server; for one thread at a time."""


class AsyncRemoteReader(ReaderVerbs, AsynchronousBlock):
    """Reads one partition of a stream on a server; for one task at a time."""


R = TypeVar("R", bound=ReaderVerbs)
G = TypeVar("G", bound=GroupVerbs)


class StreamVerbs(Remote, Generic[R, G]):
    """What both clients do with a stream."""

    _reader: Callable[..., R]
    _group: Callable[[Any, str, str], G]

    def __init__(self, broker: HasSession, name: str, row: Row | None = None) -> None:
        super().__init__(broker, name)
        self._row = row

    @attribute
    async def partitions(self) -> int:
        """How many partitions it has; asked for once."""
        if self._row is None:
            self._row = await self._ask(calls.describe(self.name))
        return int(self._row["partitions"])

    # Sending

    @verb
    async def send(self, /, body: Any, **options: Any) -> Appended:
        """Append a record; say where it is once it is durable. Options: those of leveret.Stream.send.

        A request whose answer is lost is repeated only if a producer numbers its records; otherwise it is Unreachable.
        """
        return (await self._ask(calls.append(self.name, calls.numbered([body], options))))[0]

    @verb
    async def send_many(self, /, bodies: Iterable[Any], **options: Any) -> list[Appended]:
        """Append many records with the same options, each thousand in one commit; say where they are."""
        sent: list[Appended] = []
        for batch in batches(calls.numbered(bodies, options), SEND_MAX):
            sent += await self._ask(calls.append(self.name, batch))
        return sent

    # Reading

    @verb
    async def reader(self, /, partition: int = 0, offset: Place = "next", **filters: Any) -> R:
        """A place in one partition that moves on as it is read. See leveret.Stream.reader."""
        return await self._reader_at(partition, offset, filters)

    async def _reader_at(self, partition: int, offset: Place, filters: dict[str, Any]) -> R:
        reader = self._reader(self, partition, offset, **filters)
        await reader.find()
        return reader

    @verb
    async def read(
        self,
        partition: int = 0,
        offset: Place = 0,
        *,
        max_records: int = READ_RECORDS,
        max_bytes: int = READ_BYTES,
        wait: float = 0,
    ) -> list[RemoteRecord]:
        """Records from a place on; when there is none yet, wait up to `wait` seconds for the first."""
        return await self._reader(self, partition, offset).next_records(max_records, max_bytes, wait)

    @iteration
    async def iterate(
        self, /, partition: int = 0, offset: Place = "next", **filters: Any
    ) -> AsyncGenerator[RemoteRecord, None]:
        """Record after record, for as long as the client is open."""
        reader = await self._reader_at(partition, offset, filters)
        try:
            while True:
                for record in await reader.next_records(READ_RECORDS, READ_BYTES, WAIT_S_MAX):
                    yield record
        except BrokerClosed:
            return

    # Looking

    @verb
    async def earliest(self, partition: int = 0) -> int:
        """The offset of the oldest record; of the next one when there is none."""
        return (await self._ask(calls.stats(self.name))).partitions[partition].first_offset

    @verb
    async def latest(self, partition: int = 0) -> int:
        """The offset of the record that comes next."""
        return (await self._ask(calls.stats(self.name))).partitions[partition].next_offset

    @verb
    async def at(self, partition: int, when: datetime) -> int:
        """The offset of the first record of a time or later."""
        found = await self._ask(calls.read(self.name, partition, when, 0, max_records=1))
        return found.records[0].offset if found.records else found.next_offset

    @verb
    async def stats(self) -> StreamStats:
        """Its figures."""
        return await self._ask(calls.stats(self.name))

    # Groups, and the end

    @verb
    async def group(self, name: str) -> G:
        """The consumer group of that name, made if need be: readers that share the partitions among them."""
        await self._ask(calls.declare_group(self.name, name))
        return self._group(self.broker, self.name, name)

    @verb
    async def groups(self) -> list[G]:
        """Every group that reads this stream, by name."""
        rows = [row async for row in self.broker.session.rows(lambda after: calls.list_groups(self.name, after))]
        return [self._group(self.broker, self.name, row["name"]) for row in rows]

    @verb
    async def delete(self) -> int:
        """Delete the stream with everything in it, and its groups; give the number of records."""
        return await self._ask(calls.delete(self.name))


class RemoteStream(StreamVerbs[RemoteReader, RemoteGroup], Threaded):
    """One stream, from broker.stream(): send records, read them from any place, and again. See leveret.Stream."""

    broker: RemoteBroker
    _reader = RemoteReader
    _group = RemoteGroup


class AsyncRemoteStream(StreamVerbs[AsyncRemoteReader, AsyncRemoteGroup], Asynchronous):
    """The same for asyncio; what are attributes there are verbs here."""

    broker: AsyncRemoteBroker
    _reader = AsyncRemoteReader
    _group = AsyncRemoteGroup
