"""A stream on a server: the verbs of the embedded one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, Unpack
from urllib.parse import urlencode

from leveret.client.calls import ClientCall, Row, content_json, field_of, nothing, page, path_of, row_of
from leveret.client.group import AsyncRemoteGroup, GroupVerbs, RemoteGroup
from leveret.client.message import RemoteRecord
from leveret.client.queue import SEND_MAX, WAIT_S_MAX, batches, waits
from leveret.client.session import HasSession, Remote
from leveret.core.errors import BrokerClosed
from leveret.http_client import Answer
from leveret.runtime.keywords import ReaderOptions, RecordOptions
from leveret.runtime.reading import READ_BYTES, READ_RECORDS, Place
from leveret.runtime.stream import Appended, PartitionStats, StreamStats
from leveret.runtime.verbs import (
    Asynchronous,
    AsynchronousBlock,
    Closable,
    Threaded,
    ThreadedBlock,
    attribute,
    drain,
    verb,
)

if TYPE_CHECKING:
    from leveret.client.broker import AsyncRemoteBroker, RemoteBroker


class FetchedRecords(NamedTuple):
    """Records of one partition, and the offset to go on at."""

    records: list[RemoteRecord]
    next_offset: int


def _read(path: str, partition: int, place: Place, wait_s: float, **options: Any) -> ClientCall[FetchedRecords]:
    """Read a partition."""
    query: dict[str, Any] = {"partition": partition, "encoding": "base64", **options}
    if isinstance(place, datetime):
        query["timestamp"] = max(0.0, place.timestamp())
    else:
        query["offset"] = place
    if wait_s:
        query["wait_seconds"] = wait_s

    def read(answer: Answer) -> FetchedRecords:
        found = answer.json()
        return FetchedRecords([RemoteRecord(row) for row in found["records"]], found["next_offset"])

    return ClientCall("GET", f"{path}?{urlencode(query)}", read, wait_s=wait_s)


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
        self._path = path_of("streams", stream.name, "records")
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

    async def _fetch(self, max_records: int, max_bytes: int, wait_s: float) -> FetchedRecords:
        limits = {"max_records": max_records, "max_bytes": max_bytes}
        return await self._ask(_read(self._path, self.partition, self._place, wait_s, **limits, **self._options))


class RemoteReader(ReaderVerbs, ThreadedBlock):
    """Reads one partition of a stream on a server; for one thread at a time."""


class AsyncRemoteReader(ReaderVerbs, AsynchronousBlock):
    """Reads one partition of a stream on a server; for one task at a time."""


R = TypeVar("R", bound=ReaderVerbs)
G = TypeVar("G", bound=GroupVerbs)


class StreamVerbs(Remote, Generic[R, G]):
    """What both clients do with a stream."""

    _kind = "streams"
    _reader: Callable[..., R]
    _group: Callable[[Any, str, str], G]

    def __init__(self, broker: HasSession, name: str, row: Row | None = None) -> None:
        super().__init__(broker, name)
        self._row = row

    @attribute
    async def partitions(self) -> int:
        """How many partitions it has; asked for once."""
        if self._row is None:
            self._row = await self._ask(ClientCall("GET", self._path(), row_of))
        return int(self._row["partitions"])

    # Sending

    @verb
    async def send(self, /, body: Any, **options: Unpack[RecordOptions]) -> Appended:
        """Append a record; say where it is once it is durable. Options: those of leveret.Stream.send.

        A request whose answer is lost is repeated only if a producer numbers its records; otherwise it is Unreachable.
        """
        return (await self._append(_numbered([body], options)))[0]

    @verb
    async def send_many(self, /, bodies: Iterable[Any], **options: Unpack[RecordOptions]) -> list[Appended]:
        """Append many records with the same options, each thousand in one commit; say where they are."""
        sent: list[Appended] = []
        for batch in batches(_numbered(bodies, options), SEND_MAX):
            sent += await self._append(batch)
        return sent

    async def _append(self, records: list[Row]) -> list[Appended]:
        """Append records; repeated only if they are numbered, since others would be there twice."""
        again = all("producer" in record for record in records)
        path = self._path("records", "batch")
        rows = await self._ask(ClientCall("POST", path, field_of("records"), {"records": records}, again=again))
        return [Appended(row["partition"], row["offset"]) for row in rows]

    # Reading

    @verb
    async def reader(self, /, partition: int = 0, offset: Place = "next", **filters: Unpack[ReaderOptions]) -> R:
        """A place in one partition that moves on as it is read. See leveret.Stream.reader."""
        return await self._reader_at(partition, offset, filters)

    async def _reader_at(self, partition: int, offset: Place, filters: ReaderOptions) -> R:
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

    async def _iterate(
        self, partition: int, offset: Place, filters: ReaderOptions
    ) -> AsyncGenerator[RemoteRecord, None]:
        reader = await self._reader_at(partition, offset, filters)
        try:
            while True:
                for record in await reader.next_records(READ_RECORDS, READ_BYTES, WAIT_S_MAX):
                    yield record
        except BrokerClosed:
            return
        finally:
            await reader._close()

    # Looking

    @verb
    async def earliest(self, partition: int = 0) -> int:
        """The offset of the oldest record; of the next one when there is none."""
        return (await self._stats()).partitions[partition].first_offset

    @verb
    async def latest(self, partition: int = 0) -> int:
        """The offset of the record that comes next."""
        return (await self._stats()).partitions[partition].next_offset

    @verb
    async def at(self, partition: int, when: datetime) -> int:
        """The offset of the first record of a time or later."""
        found = await self._ask(_read(self._path("records"), partition, when, 0, max_records=1))
        return found.records[0].offset if found.records else found.next_offset

    @verb
    async def stats(self) -> StreamStats:
        """Its figures."""
        return await self._stats()

    async def _stats(self) -> StreamStats:
        row = await self._ask(ClientCall("GET", self._path(), row_of))
        partitions = tuple(PartitionStats(**each) for each in row["partition_stats"])
        known = {each.name: row[each.name] for each in fields(StreamStats) if each.name != "partitions"}
        return StreamStats(**known, partitions=partitions)

    # Groups, and the end

    @verb
    async def group(self, name: str) -> G:
        """The consumer group of that name, made if need be: readers that share the partitions among them."""
        await self._ask(ClientCall("PUT", self._path("groups", name), nothing))
        return self._group(self.broker, self.name, name)

    @verb
    async def groups(self) -> list[G]:
        """Every group that reads this stream, by name."""
        rows = self.broker.session.rows(lambda after: page(self._path("groups"), "groups", after, 100))
        return [self._group(self.broker, self.name, row["name"]) async for row in rows]

    @verb
    async def delete(self) -> int:
        """Delete the stream with everything in it, and its groups; give the number of records."""
        return int(await self._ask(ClientCall("DELETE", self._path(), field_of("deleted"))))


def _numbered(bodies: Iterable[Any], options: RecordOptions) -> list[Row]:
    """Records with the same options; a `sequence` counts on from record to record."""
    shared: dict[str, Any] = {"headers": None, "properties": None, **options}
    first = shared.pop("sequence", None)
    return [
        content_json(body, **shared, sequence=None if first is None else first + place)
        for place, body in enumerate(bodies)
    ]


class RemoteStream(StreamVerbs[RemoteReader, RemoteGroup], Threaded):
    """One stream, from broker.stream(): send records, read them from any place, and again. See leveret.Stream."""

    broker: RemoteBroker
    _reader: Callable[..., RemoteReader] = RemoteReader
    _group = RemoteGroup

    def iterate(
        self, partition: int = 0, offset: Place = "next", **filters: Unpack[ReaderOptions]
    ) -> Iterator[RemoteRecord]:
        """Record after record, for as long as the client is open."""
        return drain(self._iterate(partition, offset, filters))


class AsyncRemoteStream(StreamVerbs[AsyncRemoteReader, AsyncRemoteGroup], Asynchronous):
    """The same for asyncio; what are attributes there are verbs here."""

    broker: AsyncRemoteBroker
    _reader: Callable[..., AsyncRemoteReader] = AsyncRemoteReader
    _group = AsyncRemoteGroup

    def iterate(
        self, partition: int = 0, offset: Place = "next", **filters: Unpack[ReaderOptions]
    ) -> AsyncIterator[RemoteRecord]:
        """Record after record, for as long as the client is open."""
        return self._iterate(partition, offset, filters)
