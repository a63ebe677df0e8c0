"""Everything that one scrape of the whole broker tells, looked up once."""

from __future__ import annotations

import asyncio
import resource
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from leveret.core.errors import BrokerClosed, JournalFailed
from leveret.core.names import INTERNAL_VHOST
from leveret.core.tally import Tally
from leveret.observability.tracing import NO_SPANS
from leveret.protocols.management.nodes import open_files
from leveret.protocols.management.parameters import cluster_name
from leveret.protocols.metrics.storage import Storage, Streams, look_at_storage, look_at_streams

if TYPE_CHECKING:
    from collections.abc import Callable

    from leveret.observability.audit import Audit
    from leveret.protocols.management.context import AdminContext, Process
    from leveret.runtime.runtime import Runtime
    from leveret.runtime.shared.redis import Redis

STEP = 5_000  # queues that are looked at in one turn of the loop: about a millisecond


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

    def sum(self, name: str) -> int:
        """A figure of all queues together."""
        return sum(getattr(tally, name) for tally in self.tallies.values())

    def counted(self, name: str) -> int:
        """A counter of all queues together, those too that are gone."""
        return sum(tally.counts[name] for tally in self.tallies.values())


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
    """Add the queues of one broker."""
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
