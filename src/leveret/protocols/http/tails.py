"""Requests that read streams and wait at their end: files are read in other threads, waiting takes none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from leveret.protocols.http.async_broker import AsyncBroker
from leveret.runtime.reading import Place, StreamRecord
from leveret.runtime.stream import RuntimeStream
from leveret.runtime.waiters import TaskWaiter

OVERHEAD_BYTES = 64  # of a record in memory, beside its body


class TailRange(NamedTuple):
    """What is to be read: from a place in each of some partitions on, within limits."""

    places: Mapping[int, Place]
    records_max: int
    bytes_max: int
    filters: Sequence[str] | None = None
    match_unfiltered: bool = False


class TailRecords(NamedTuple):
    """What there was, and the offset to go on at in each partition."""

    records: list[StreamRecord]
    offsets: dict[int, int]


async def read(
    async_broker: AsyncBroker, stream: RuntimeStream, wanted: TailRange, wait_s: float, user: str
) -> TailRecords:
    """Records of a stream for a user; when there is none, wait for the first."""
    if wait_s <= 0 or not wanted.places:
        return await async_broker.in_thread(partial(look, stream, wanted))
    async_broker.check_polls()
    tail = StreamTail(async_broker, stream, wait_s, user)
    try:
        found = await async_broker.in_thread(partial(look, stream, wanted))
        while not found.records and await tail.grown():
            # From where it stood: what came meanwhile is not "next" any more.
            more = await async_broker.in_thread(partial(look, stream, wanted._replace(places=found.offsets)))
            found = found if tail.ended else more
        return found
    finally:
        tail.leave()


def look(stream: RuntimeStream, wanted: TailRange) -> TailRecords:
    """What there is now. Reads files: not for the thread of the loop."""
    found = TailRecords([], {})
    left_bytes = wanted.bytes_max
    for partition, place in wanted.places.items():
        with stream.reader(
            partition, place, filters=wanted.filters, match_unfiltered=wanted.match_unfiltered
        ) as reader:
            if len(found.records) < wanted.records_max and left_bytes > 0:
                records = reader.read(wanted.records_max - len(found.records), max_bytes=left_bytes)
                left_bytes -= sum(len(record.data) + OVERHEAD_BYTES for record in records)
                found.records.extend(records)
            found.offsets[partition] = reader.offset
    return found


class StreamTail:
    """A request that waits for a stream to grow; see Waiters."""

    def __init__(self, async_broker: AsyncBroker, stream: RuntimeStream, wait_s: float, user: str) -> None:
        self.user = user
        self._async_broker = async_broker
        self._stream = stream
        self._until_ms = stream.runtime.clock.now_ms() + round(wait_s * 1000)
        self._waiter = TaskWaiter()
        self.ended = False
        self._join()
        async_broker.polls.add(self)

    def _join(self) -> None:
        """Stand in the line, once."""
        runtime = self._stream.runtime
        with runtime:
            runtime.waiters.leave(self._stream.core, self._waiter)
            runtime.waiters.join(self._stream.core, self._waiter)

    async def grown(self) -> bool:
        """Wait until something has happened to the stream; False when the time is over."""
        if not await self._waiter.wait(self._stream.runtime.clock, self._until_ms):
            return False
        if not self.ended:
            self._join()  # before the next look: nothing comes unnoticed
        return not self.ended

    def end(self) -> None:
        self.ended = True
        self._waiter.wake()

    def leave(self) -> None:
        self._async_broker.polls.discard(self)
        with self._stream.runtime.lock:
            self._stream.runtime.waiters.leave(self._stream.anyway, self._waiter)
