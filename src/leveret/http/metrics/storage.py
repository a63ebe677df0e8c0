"""What lies on the disk and how fast it gets there: journal, archive, streams and how far groups have read them."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from leveret.embedded.stats import journal_stats
from leveret.telemetry.exposition import Labels, labels

if TYPE_CHECKING:
    from leveret.core.broker import Broker
    from leveret.core.histogram import Histogram
    from leveret.embedded.guard import Guard


class Storage(NamedTuple):
    """The journal on files, and its archive."""

    sync_us: Histogram
    frame_entries: Histogram
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


async def look_at_storage(guard: Guard) -> Storage | None:
    """The figures of a broker on files. Files are counted in another thread: there may be many, and disks are slow."""
    store = guard.store
    if store is None:
        return None
    journal = await asyncio.to_thread(journal_stats, store, guard.first_frame, 0)
    archive = store.options.archive_dir
    archived = None if archive is None else await asyncio.to_thread(bytes_in, str(archive))
    return Storage(
        sync_us=store.sync_us,
        frame_entries=store.frame_entries,
        written_bytes=store.bytes_written,
        unwritten_bytes=journal.unwritten_bytes,
        replay_s=store.recovered.seconds,
        log_bytes=journal.log_bytes,
        segments=journal.segments,
        archive_bytes=archived,
        full=journal.full,
    )


def bytes_in(directory: str) -> int:
    """The size of all files under a directory; one that goes meanwhile is not counted."""
    size = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(FileNotFoundError):
                size += os.stat(os.path.join(folder, name)).st_size
    return size


def look_at_streams(guard: Guard, core: Broker) -> Streams:
    """The figures of all streams; under the lock."""
    partitions = [each for recorder in guard.streams for each in recorder.figures()]
    lags: dict[Labels, int] = {}
    for group in guard.streams.groups:
        stream = core.topology.vhost(group.vhost).queues.get(group.stream)
        if stream is not None and stream.recorder is not None:
            named = labels(vhost=group.vhost, stream=group.stream, group=group.name)
            lags[named] = sum(group.lag(stream.recorder).values())
    return Streams(
        messages=sum(each["messages"] for each in partitions),
        bytes=sum(each["size_bytes"] for each in partitions),
        segments=sum(each["segments"] for each in partitions),
        lags=lags,
    )
