"""What lies on the disk and how fast it gets there: journal, archive, streams and how far groups have read them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from leveret.core.errors import BrokerClosed, JournalFailed
from leveret.core.histogram import Histogram
from leveret.observability.exposition import Labels, labels
from leveret.runtime.stats import journal_stats

if TYPE_CHECKING:
    from leveret.core.broker import Broker
    from leveret.protocols.http.departed import Departed
    from leveret.runtime.runtime import Runtime


class Storage(NamedTuple):
    """The journal, or those of the shards of a node together; and the archive."""

    sync_us: Histogram
    batch_entries: Histogram
    written_bytes: int
    unwritten_bytes: int
    replay_s: float
    log_bytes: int
    segments: int
    archive_bytes: int | None
    """None: nothing is archived."""
    full: bool


class Streams(NamedTuple):
    """All streams together, and the lag of each group of readers."""

    messages: int
    bytes: int
    segments: int
    lags: dict[Labels, int]


async def look_at_storage(runtimes: Iterable[Runtime], departed: Departed) -> Storage | None:
    """The figures of brokers that keep something. Files are counted in another thread: there may be many."""
    kept = [(runtime.store, runtime.first_batch) for runtime in runtimes if runtime.store is not None]
    if not kept:
        return None
    journals = await asyncio.to_thread(lambda: [journal_stats(*each, 0) for each in kept])
    stores = [store for store, _ in kept]
    archives = {str(store.options.archive_dir) for store in stores if store.options.archive_dir is not None}
    archived = await asyncio.to_thread(lambda: sum(map(bytes_in, archives)))
    return Storage(
        sync_us=together(departed.sync_us, *(store.sync_us for store in stores)),
        batch_entries=together(departed.batch_entries, *(store.batch_entries for store in stores)),
        written_bytes=departed.written_bytes + sum(store.bytes_written for store in stores),
        unwritten_bytes=sum(journal.unwritten_bytes for journal in journals),
        replay_s=max(store.recovered.seconds for store in stores),
        log_bytes=sum(journal.log_bytes for journal in journals),
        segments=sum(journal.segments for journal in journals),
        archive_bytes=archived if archives else None,
        full=any(journal.full for journal in journals),
    )


def together(*histograms: Histogram) -> Histogram:
    """All that was observed."""
    found = Histogram()
    for each in histograms:
        found.add(each)
    return found


def bytes_in(directory: str) -> int:
    """The size of all files under a directory; one that goes meanwhile is not counted."""
    size = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(FileNotFoundError):
                size += os.stat(os.path.join(folder, name)).st_size
    return size


def look_at_streams(runtimes: Iterable[Runtime]) -> Streams:
    """The figures of all streams."""
    partitions: list[dict[str, int]] = []
    lags: dict[Labels, int] = {}
    for runtime in runtimes:
        with suppress(BrokerClosed, JournalFailed), runtime as core:
            partitions += [each for recorder in runtime.streams for each in recorder.figures()]
            lags |= _lags(runtime, core)
    return Streams(
        messages=sum(each["messages"] for each in partitions),
        bytes=sum(each["size_bytes"] for each in partitions),
        segments=sum(each["segments"] for each in partitions),
        lags=lags,
    )


def _lags(runtime: Runtime, core: Broker) -> dict[Labels, int]:
    """How far each group is behind; under the lock."""
    lags: dict[Labels, int] = {}
    for group in runtime.streams.groups:
        stream = core.topology.vhost(group.vhost).queues.get(group.stream)
        if stream is not None and stream.recorder is not None:
            named = labels(vhost=group.vhost, stream=group.stream, group=group.name)
            lags[named] = sum(group.lag(stream.recorder).values())
    return lags
