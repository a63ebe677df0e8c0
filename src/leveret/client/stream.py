"""A stream on a server: the verbs of the embedded one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from leveret.client import stream_calls as calls
from leveret.client.calls import Row
from leveret.client.cursor import Placed, RemoteCursor, waits
from leveret.client.group import RemoteGroup
from leveret.client.queue import SEND_MAX, WAIT_S_MAX, batches
from leveret.client.record import RemoteRecord
from leveret.core.errors import BrokerClosed
from leveret.embedded.reading import READ_BYTES, READ_RECORDS
from leveret.embedded.records import Place
from leveret.embedded.stream import Appended, StreamStats

if TYPE_CHECKING:
    from leveret.client.broker import RemoteBroker


class RemoteStream:
    """One stream, from broker.stream(): send records, read them from any place, and again. See leveret.Stream."""

    def __init__(self, broker: RemoteBroker, name: str, row: Row | None = None) -> None:
        self.broker = broker
        self.name = name
        self._row = row

    def __repr__(self) -> str:
        return f"<RemoteStream {self.name!r}>"

    @property
    def partitions(self) -> int:
        """How many partitions it has; asked for once."""
        if self._row is None:
            self._row = self._look()
        return int(self._row["partitions"])

    def _look(self) -> Row:
        return self.broker.run(calls.describe(self.name))

    # Sending

    def send(self, body: Any, **options: Any) -> Appended:
        """Append a record; say where it is once it is durable. Options: those of leveret.Stream.send.

        A request whose answer is lost is repeated only if a producer numbers its records; otherwise it is Unreachable.
        """
        return self.broker.run(calls.append(self.name, calls.numbered([body], options)))[0]

    def send_many(self, bodies: Iterable[Any], **options: Any) -> list[Appended]:
        """Append many records with the same options, each thousand in one commit; say where they are."""
        sent: list[Appended] = []
        for batch in batches(calls.numbered(bodies, options), SEND_MAX):
            sent += self.broker.run(calls.append(self.name, batch))
        return sent

    # Reading

    def reader(self, partition: int = 0, offset: Place = "next", **filters: Any) -> RemoteReader:
        """A place in one partition that moves on as it is read. See leveret.Stream.reader."""
        cursor = RemoteCursor(self.name, partition, offset, **filters)
        # Where that is now: what comes before the first read is to be read, too.
        cursor.find(self.broker.run(cursor.read(1, 1, 0)))
        return RemoteReader(self.broker, cursor)

    def read(
        self,
        partition: int = 0,
        offset: Place = 0,
        *,
        max_records: int = READ_RECORDS,
        max_bytes: int = READ_BYTES,
        wait: float = 0,
    ) -> list[RemoteRecord]:
        """Records from a place on; when there is none yet, wait up to `wait` seconds for the first."""
        reader = RemoteReader(self.broker, RemoteCursor(self.name, partition, offset))
        return reader.read(max_records, max_bytes=max_bytes, wait=wait)

    def iterate(self, partition: int = 0, offset: Place = "next", **filters: Any) -> Iterator[RemoteRecord]:
        """Record after record, for as long as the client is open."""
        reader = self.reader(partition, offset, **filters)
        try:
            while True:
                yield from reader.read(wait=WAIT_S_MAX)
        except BrokerClosed:
            return

    # Looking

    def earliest(self, partition: int = 0) -> int:
        """The offset of the oldest record; of the next one when there is none."""
        return self.stats().partitions[partition].first_offset

    def latest(self, partition: int = 0) -> int:
        """The offset of the record that comes next."""
        return self.stats().partitions[partition].next_offset

    def at(self, partition: int, when: datetime) -> int:
        """The offset of the first record of a time or later."""
        found = self.broker.run(calls.read(self.name, partition, when, 0, max_records=1))
        return found.records[0].offset if found.records else found.next_offset

    def stats(self) -> StreamStats:
        """Its figures."""
        return calls.stats_of(self._look())

    # Groups, and the end

    def group(self, name: str) -> RemoteGroup:
        """The consumer group of that name, made if need be: readers that share the partitions among them."""
        self.broker.run(calls.declare_group(self.name, name))
        return RemoteGroup(self.broker, self.name, name)

    def groups(self) -> list[RemoteGroup]:
        """Every group that reads this stream, by name."""
        found: list[RemoteGroup] = []
        after: str | None = ""
        while after is not None:
            rows, after = self.broker.run(calls.list_groups(self.name, after))
            found += [RemoteGroup(self.broker, self.name, row["name"]) for row in rows]
        return found

    def delete(self) -> int:
        """Delete the stream with everything in it, and its groups; give the number of records."""
        return self.broker.run(calls.delete(self.name))


class RemoteReader(Placed):
    """Reads one partition of a stream on a server; for one thread at a time."""

    def __init__(self, broker: RemoteBroker, cursor: RemoteCursor) -> None:
        super().__init__(cursor)
        self._broker = broker

    def read(
        self, max_records: int = READ_RECORDS, *, max_bytes: int = READ_BYTES, wait: float = 0
    ) -> list[RemoteRecord]:
        """The next records; when there is none yet, wait up to `wait` seconds for the first."""
        for wait_s in waits(wait):
            found = self._cursor.take(self._broker.run(self._cursor.read(max_records, max_bytes, wait_s)))
            if found:
                return found
        return []

    def close(self) -> None:
        """There is nothing to let go of; here because the embedded reader has it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """As the embedded reader."""
