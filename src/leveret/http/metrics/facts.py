"""Everything that one scrape of the whole broker tells, looked up once."""

from __future__ import annotations

import asyncio
import resource
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from leveret.core.tally import Tally
from leveret.http.management.nodes import open_files
from leveret.http.management.parameters import cluster_name
from leveret.http.metrics.storage import Storage, Streams, look_at_storage, look_at_streams
from leveret.telemetry.tracing import NO_SPANS

if TYPE_CHECKING:
    from collections.abc import Callable

    from leveret.http.management.site import Process, Site
    from leveret.shared.redis import Redis

STEP = 5_000  # queues that are looked at in one turn of the loop: about a millisecond


@dataclass(slots=True, kw_only=True)
class Facts:
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
    tallies: dict[str, Tally] = field(default_factory=dict)
    """By queue type."""

    def sum(self, name: str) -> int:
        """A figure of all queues together."""
        return sum(getattr(tally, name) for tally in self.tallies.values())

    def counted(self, name: str) -> int:
        """A counter of all queues together, those too that are gone."""
        return sum(tally.counts[name] for tally in self.tallies.values())


async def gather(site: Site, limited: Callable[[], int]) -> Facts:
    """Look everything up, some queues in each turn of the loop."""
    tallies = await tally_all(site)
    storage = await look_at_storage(site.desk.guard)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    with site.desk.guard as core:
        return Facts(
            process=site.process,
            cluster=cluster_name(core),
            tag=core.tag,
            now_ms=core.now_ms,
            objects=site.clients.counts() | {"queues": len(core.queues)},
            churn=site.rates.churn(core),
            traffic=site.clients.traffic(),
            limited=limited(),
            spans=NO_SPANS if site.desk.guard.tracer is None else site.desk.guard.tracer.counts,
            memory_bytes=site.process.memory_bytes(),
            free_bytes=site.process.free_bytes(),
            files=open_files(),
            cpu_s=usage.ru_utime + usage.ru_stime,
            storage=storage,
            streams=look_at_streams(site.desk.guard, core),
            alerts=site.alerts.firing_counts(),
            redis=site.redis,
            tallies=tallies,
        )


async def tally_all(site: Site) -> dict[str, Tally]:
    """What all queues hold and have counted, by their types."""
    tallies: defaultdict[str, Tally] = defaultdict(Tally)
    with site.desk.guard as core:
        queues = list(core.queues.values())
        for kind, departed in core.departed.items():
            tallies[kind].merge(departed)
    for start in range(0, len(queues), STEP):
        with site.desk.guard:
            by_type = defaultdict(list)
            for queue in queues[start : start + STEP]:
                if queue.deleted:
                    tallies[queue.policy.queue_type].keep(queue)  # it was not among the departed when this began
                else:
                    by_type[queue.policy.queue_type].append(queue)
            for kind, some in by_type.items():
                tallies[kind].add(some)
        await asyncio.sleep(0)
    return tallies
