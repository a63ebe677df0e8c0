"""A stream on a server, for asyncio; see stream.py."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from leveret.client import stream_calls as calls
from leveret.client.agroup import AsyncRemoteGroup
from leveret.client.calls import Row
from leveret.client.cursor import Placed, RemoteCursor, waits
from leveret.client.queue import SEND_MAX, WAIT_S_MAX, batches
from leveret.client.record import RemoteRecord
from leveret.core.errors import BrokerClosed
from leveret.embedded.reading import READ_BYTES, READ_RECORDS
from leveret.embedded.records import Place
from leveret.embedded.stream import Appended, StreamStats

if TYPE_CHECKING:
    from leveret.client.abroker import AsyncRemoteBroker


class AsyncRemoteStream:
    """One stream, from broker.stream(): send records, read them from any place, and again. See leveret.Stream."""

    def __init__(self, broker: AsyncRemoteBroker, name: str) -> None:
        self.broker = broker
        self.name = name

    def __repr__(self) -> str:
        return f"<AsyncRemoteStream {self.name!r}>"

    async def _look(self) -> Row:
        return await self.broker.run(calls.describe(self.name))

    # Sending

    async def send(self, body: Any, **options: Any) -> Appended:
        """Append a record; say where it is once it is durable. Options: those of leveret.Stream.send.

        A request whose answer is lost is repeated only if a producer numbers its records; otherwise it is Unreachable.
        """
        return (await self.broker.run(calls.append(self.name, calls.numbered([body], options))))[0]

    async def send_many(self, bodies: Iterable[Any], **options: Any) -> list[Appended]:
        """Append many records with the same options, each thousand in one commit; say where they are."""
        sent: list[Appended] = []
        for batch in batches(calls.numbered(bodies, options), SEND_MAX):
            sent += await self.broker.run(calls.append(self.name, batch))
        return sent

    # Reading

    async def reader(self, partition: int = 0, offset: Place = "next", **filters: Any) -> AsyncRemoteReader:
        """A place in one partition that moves on as it is read. See leveret.Stream.reader."""
        cursor = RemoteCursor(self.name, partition, offset, **filters)
        # Where that is now: what comes before the first read is to be read, too.
        cursor.find(await self.broker.run(cursor.read(1, 1, 0)))
        return AsyncRemoteReader(self.broker, cursor)

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
        reader = AsyncRemoteReader(self.broker, RemoteCursor(self.name, partition, offset))
        return await reader.read(max_records, max_bytes=max_bytes, wait=wait)

    async def iterate(self, partition: int = 0, offset: Place = "next", **filters: Any) -> AsyncIterator[RemoteRecord]:
        """Record after record, for as long as the client is open."""
        reader = await self.reader(partition, offset, **filters)
        try:
            while True:
                for record in await reader.read(wait=WAIT_S_MAX):
                    yield record
        except BrokerClosed:
            return

    # Looking

    async def earliest(self, partition: int = 0) -> int:
        """The offset of the oldest record; of the next one when there is none."""
        return (await self.stats()).partitions[partition].first_offset

    async def latest(self, partition: int = 0) -> int:
        """The offset of the record that comes next."""
        return (await self.stats()).partitions[partition].next_offset

    async def at(self, partition: int, when: datetime) -> int:
        """The offset of the first record of a time or later."""
        found = await self.broker.run(calls.read(self.name, partition, when, 0, max_records=1))
        return found.records[0].offset if found.records else found.next_offset

    async def stats(self) -> StreamStats:
        """Its figures."""
        return calls.stats_of(await self._look())

    # Groups, and the end

    async def group(self, name: str) -> AsyncRemoteGroup:
        """The consumer group of that name, made if need be: readers that share the partitions among them."""
        await self.broker.run(calls.declare_group(self.name, name))
        return AsyncRemoteGroup(self.broker, self.name, name)

    async def groups(self) -> list[AsyncRemoteGroup]:
        """Every group that reads this stream, by name."""
        found: list[AsyncRemoteGroup] = []
        after: str | None = ""
        while after is not None:
            rows, after = await self.broker.run(calls.list_groups(self.name, after))
            found += [AsyncRemoteGroup(self.broker, self.name, row["name"]) for row in rows]
        return found

    async def delete(self) -> int:
        """Delete the stream with everything in it, and its groups; give the number of records."""
        return await self.broker.run(calls.delete(self.name))


class AsyncRemoteReader(Placed):
    """Reads one partition of a stream on a server; for one task at a time."""

    def __init__(self, broker: AsyncRemoteBroker, cursor: RemoteCursor) -> None:
        super().__init__(cursor)
        self._broker = broker

    async def read(
        self, max_records: int = READ_RECORDS, *, max_bytes: int = READ_BYTES, wait: float = 0
    ) -> list[RemoteRecord]:
        """The next records; when there is none yet, wait up to `wait` seconds for the first."""
        for wait_s in waits(wait):
            found = self._cursor.take(await self._broker.run(self._cursor.read(max_records, max_bytes, wait_s)))
            if found:
                return found
        return []
