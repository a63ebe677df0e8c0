"""Everything that one scrape of the whole broker tells, looked up once."""

from __future__ import annotations

import asyncio
import os
import resource
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from leveret.core.errors import BrokerClosed, JournalFailed
from leveret.core.histogram import Histogram
from leveret.core.names import INTERNAL_VHOST
from leveret.core.tally import Tally
from leveret.observability.exposition import Labels, labels
from leveret.observability.tracing import NO_SPANS
from leveret.protocols.management.overview import open_files
from leveret.protocols.management.policies import cluster_name
from leveret.runtime.stats import history_begins_ms, journal_stats

if TYPE_CHECKING:
    from collections.abc import Callable

    from leveret.core.broker import Broker
    from leveret.observability.audit import Audit
    from leveret.protocols.management.context import AdminContext, Departed, Process
    from leveret.runtime.runtime import Runtime
    from leveret.runtime.shared.redis import Redis

STEP = 5_000  # queues that are looked at in one turn of the loop: about a millisecond


class Storage(NamedTuple):
    """The journal, or those of the shards of a node together; and the archive."""

    sync_us: Histogram
    commit_us: Histogram
    batch_entries: Histogram
    written_bytes: int
    unwritten_bytes: int
    replay_s: float
    log_bytes: int
    segments: int
    archive_bytes: int | None
    """None: nothing is archived."""
    history_bytes: int
    history_segments: int
    history_dropped: int
    history_begins_s: float
    events_dropped: int
    full: int


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
        commit_us=together(departed.commit_us, *(store.commit.commit_us for store in stores)),
        batch_entries=together(departed.batch_entries, *(store.batch_entries for store in stores)),
        written_bytes=departed.written_bytes + sum(store.bytes_written for store in stores),
        unwritten_bytes=sum(journal.unwritten_bytes for journal in journals),
        replay_s=max(store.recovered.seconds for store in stores),
        log_bytes=sum(journal.log_bytes for journal in journals),
        segments=sum(journal.segments for journal in journals),
        archive_bytes=archived if archives else None,
        history_bytes=sum(journal.history_bytes for journal in journals),
        history_segments=sum(journal.history_segments for journal in journals),
        history_dropped=departed.history_dropped + sum(journal.history_dropped for journal in journals),
        events_dropped=departed.events_dropped + sum(journal.events_dropped for journal in journals),
        history_begins_s=(history_begins_ms(journals) or 0) / 1_000,
        full=int(any(journal.full for journal in journals)),
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


HELD = ("ready", "ready_bytes", "leased", "scheduled", "backing_off", "consumers")


@dataclass(slots=True, kw_only=True)
class ScrapeFacts:
    """What there is now, and what was counted since the process started."""

    process: Process
    cluster: str
    tag: int
    now_ms: int
    objects: dict[str, int]
    churn: dict[str, int]
    traffic: dict[str, int]
    limited: int
    spans: dict[str, int]
    """By what became of them."""
    memory_bytes: int
    free_bytes: int
    files: int
    cpu_s: float
    storage: Storage | None
    streams: Streams
    alerts: dict[str, int]
    """How many are firing, by rule."""
    redis: Redis | None
    audit: Audit
    part: dict[str, Any]
    """What a node has in its cluster; nothing where there is none."""
    tallies: dict[str, Tally] = field(default_factory=dict)
    """By queue type."""
    held: dict[str, int] = field(init=False)
    by_type: dict[str, dict[str, int]] = field(init=False)
    counted: dict[str, int] = field(init=False)
    """All types together."""

    def __post_init__(self) -> None:
        tallies = self.tallies.values()
        self.held = {name: sum(getattr(tally, name) for tally in tallies) for name in HELD}
        self.by_type = {kind: _counts(tally) for kind, tally in self.tallies.items()}
        self.counted = {name: sum(counts[name] for counts in self.by_type.values()) for name in _counts(Tally())}


def _counts(tally: Tally) -> dict[str, int]:
    """What was counted, also in queues that are gone; `unsettled` is what clients were to acknowledge."""
    counts = tally.counts
    taken = counts["delivered"] - counts["pushed"] - counts["taken_settled"]
    return counts | {"pushed_unsettled": counts["pushed"] - counts["pushed_settled"], "taken_unsettled": taken}


async def gather(context: AdminContext, limited: Callable[[], int], redis: Redis | None) -> ScrapeFacts:
    """Look everything up, some queues in each turn of the loop."""
    tallies = await tally_all(context)
    storage = await look_at_storage(context.runtimes, context.departed)
    streams = look_at_streams(context.runtimes)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    with context.async_broker.runtime as core:
        return ScrapeFacts(
            process=context.process,
            cluster=cluster_name(context, core),
            tag=core.tag,
            now_ms=core.now_ms,
            objects=context.clients.counts() | {"queues": sum(tally.queues for tally in tallies.values())},
            churn=context.rates.churn(core),
            traffic=context.clients.traffic(),
            limited=limited(),
            spans=NO_SPANS
            if context.async_broker.runtime.tracer is None
            else context.async_broker.runtime.tracer.counts,
            memory_bytes=context.process.memory_bytes(),
            free_bytes=context.process.free_bytes(),
            files=open_files(),
            cpu_s=usage.ru_utime + usage.ru_stime,
            storage=storage,
            streams=streams,
            alerts=context.alerts.firing_counts(),
            redis=redis,
            audit=context.audit,
            part={} if context.cluster is None else context.cluster.figures(),
            tallies=tallies,
        )


async def tally_all(context: AdminContext) -> dict[str, Tally]:
    """What all queues hold and have counted, by their types."""
    tallies: defaultdict[str, Tally] = defaultdict(Tally)
    for kind, tally in context.departed.tallies.items():
        tallies[kind].merge(tally)
    for runtime in context.runtimes:
        with suppress(BrokerClosed, JournalFailed):  # a shard may go meanwhile
            await _tally(runtime, tallies)
    return tallies


async def _tally(runtime: Runtime, tallies: dict[str, Tally]) -> None:
    with runtime as core:
        queues = [queue for queue in core.queues.values() if queue.vhost != INTERNAL_VHOST]
        for kind, departed in core.departed.items():
            tallies[kind].merge(departed)
    for start in range(0, len(queues), STEP):
        with runtime:
            by_type = defaultdict(list)
            for queue in queues[start : start + STEP]:
                if queue.deleted:
                    tallies[queue.policy.queue_type].keep(queue)  # it was not among the departed when this began
                else:
                    by_type[queue.policy.queue_type].append(queue)
            for kind, some in by_type.items():
                tallies[kind].add(some)
        await asyncio.sleep(0)
