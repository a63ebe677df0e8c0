"""A stream as its users see it: send, read from any place, and again; each for threads and for asyncio.

`send` returns when the record is durable, and only what is durable can be read.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Unpack

from leveret.core.arguments import TIME_MS_MAX
from leveret.core.errors import BrokerClosed
from leveret.core.queue import Queue as CoreQueue
from leveret.embedded.group import Group
from leveret.runtime.keywords import ReaderOptions, RecordOptions
from leveret.runtime.reading import READ_BYTES, READ_RECORDS, Place, StreamRecord
from leveret.runtime.stream import Appended, RuntimeStream
from leveret.runtime.verbs import Durable, drain, durably, twin
from leveret.runtime.waiters import TaskWaiter, ThreadWaiter

if TYPE_CHECKING:
    from leveret.embedded.broker import Broker

FOREVER_S = TIME_MS_MAX // 1000


class Stream(RuntimeStream):
    """One stream, from broker.stream(): an append-only log in one or more partitions.

    Records with the same key are in the same partition, in their order. Reading removes nothing. For asyncio see
    leveret.AsyncStream.
    """

    __slots__ = ("broker",)

    def __init__(self, broker: Broker, core: CoreQueue) -> None:
        super().__init__(broker.runtime, core)
        self.broker = broker

    # Sending

    @durably
    def send(self, body: Any, **options: Unpack[RecordOptions]) -> Durable[Appended]:
        """Append a record; say where it is once it is durable. Options: key, headers, properties and these.

        With a `producer` and its `sequence`, which rises, what was sent before is not appended again. Readers may ask
        for records of one `filter` value.
        """
        commit_batch, sent = self.post([self.prepare(body, **options)])
        return commit_batch, sent[0]

    @durably
    def send_many(self, /, bodies: Iterable[Any], **options: Unpack[RecordOptions]) -> Durable[list[Appended]]:
        """Append many records with the same options, in one commit; say where they are."""
        return self.post_many(bodies, **options)

    # Reading

    def read(
        self,
        partition: int = 0,
        offset: Place = 0,
        *,
        max_records: int = READ_RECORDS,
        max_bytes: int = READ_BYTES,
        wait: float = 0,
    ) -> list[StreamRecord]:
        """Records from a place on; when there is none yet, wait up to `wait` seconds for the first.

        At most `max_records`, and about `max_bytes` of them. Go on at the offset after the last one.
        """
        with self.reader(partition, offset) as reader:
            return reader.read(max_records, max_bytes=max_bytes, wait=wait)

    async def _aread(
        self,
        partition: int = 0,
        offset: Place = 0,
        *,
        max_records: int = READ_RECORDS,
        max_bytes: int = READ_BYTES,
        wait: float = 0,
    ) -> list[StreamRecord]:
        """The same as read, for asyncio."""
        with self.reader(partition, offset) as reader:
            return await reader._aread(max_records, max_bytes=max_bytes, wait=wait)

    def iterate(
        self, partition: int = 0, offset: Place = "next", **filters: Unpack[ReaderOptions]
    ) -> Iterator[StreamRecord]:
        """Record after record, for as long as the broker is open."""
        return drain(self._iterate(ThreadWaiter, partition, offset, filters))

    def _aiterate(
        self, partition: int = 0, offset: Place = "next", **filters: Unpack[ReaderOptions]
    ) -> AsyncIterator[StreamRecord]:
        """The same as iterate, for asyncio."""
        return self._iterate(TaskWaiter, partition, offset, filters)

    async def _iterate(
        self, new_waiter: type[ThreadWaiter | TaskWaiter], partition: int, offset: Place, filters: ReaderOptions
    ) -> AsyncGenerator[StreamRecord, None]:
        with self.reader(partition, offset, **filters) as reader:
            try:
                while True:
                    for record in await reader.next_records(new_waiter, READ_RECORDS, READ_BYTES, FOREVER_S):
                        yield record
            except BrokerClosed:
                return

    # Groups

    @durably
    def group(self, name: str) -> Durable[Group]:
        """The consumer group of that name, made if need be: readers that share the partitions among them."""
        with self.runtime:
            group = self.runtime.streams.groups.declare(self.core.vhost, self.name, name, self.partitions)
            return self.runtime.commit(), Group(self, group)

    def groups(self) -> list[Group]:
        """Every group that reads this stream, by name."""
        with self.runtime:
            found = self.runtime.streams.groups.of(self.core.vhost, self.name)
        return [Group(self, each) for each in found]

    # The same for asyncio

    _asend = twin(send)
    _asend_many = twin(send_many)
    _agroup = twin(group)
