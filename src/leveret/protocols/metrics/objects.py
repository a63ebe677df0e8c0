"""The objects that have metrics of their own, and which metrics: the families of `/metrics/detailed`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from leveret.core.errors import BrokerClosed, JournalFailed
from leveret.core.names import INTERNAL_VHOST
from leveret.core.queue import Queue
from leveret.core.tally import column
from leveret.observability.exposition import Labels
from leveret.observability.statistics import graveyards
from leveret.protocols.metrics import clients, queues
from leveret.protocols.metrics.figure import ObjectMetric
from leveret.runtime.runtime import Runtime

if TYPE_CHECKING:
    from leveret.protocols.management.context import AdminContext, ClientEntry

STEP = 1_000  # objects that are looked at in one turn of the loop, whatever there is to be said of them


class Objects(NamedTuple):
    """Some of one kind, at most STEP, and how each is named; they are looked at under the lock of their broker."""

    runtime: Runtime
    labels: list[Labels]
    objects: list[Any]


Vhosts = frozenset[str] | None
Find = Callable[["AdminContext", Vhosts], AsyncIterator[Objects]]
Choose = Callable[[Sequence[Queue]], list[Queue]]


class MetricGroup(NamedTuple):
    """Metrics that are asked for together."""

    find: Find
    columns: Sequence[ObjectMetric]


def steps(objects: Sequence[Any]) -> list[Sequence[Any]]:
    """A list in pieces that can be looked at in one turn."""
    return [objects[start : start + STEP] for start in range(0, len(objects), STEP)]


def seen(runtime: Runtime, vhosts: Vhosts) -> list[Queue]:
    """The queues of these virtual hosts, or of all; none of a shard that has just gone."""
    with suppress(BrokerClosed, JournalFailed), runtime as core:
        virtual_hosts = [
            virtual_host
            for virtual_host in core.topology.vhosts.values()
            if vhosts is None or virtual_host.name in vhosts
        ]
        return [
            queue
            for virtual_host in virtual_hosts
            if virtual_host.name != INTERNAL_VHOST
            for queue in virtual_host.queues.values()
        ]
    return []


async def chosen_queues(context: AdminContext, vhosts: Vhosts, choose: Choose) -> AsyncIterator[Objects]:
    """Some queues of each step."""
    for runtime in context.runtimes:
        for some in steps(seen(runtime, vhosts)):
            found = choose(some)
            if found:
                yield Objects(runtime, [queues.labels_of(queue) for queue in found], found)
            await asyncio.sleep(0)


def all_queues(context: AdminContext, vhosts: Vhosts) -> AsyncIterator[Objects]:
    """Every queue."""
    return chosen_queues(context, vhosts, list)


def used_queues(context: AdminContext, vhosts: Vhosts) -> AsyncIterator[Objects]:
    """Those in which there is or was something: of a hundred thousand, mostly few."""

    def used(some: Sequence[Queue]) -> list[Queue]:
        pairs = zip(some, column(list(some), "published"), strict=True)
        return [each for each, published in pairs if published or each.depth or each.leased or each.scheduled]

    return chosen_queues(context, vhosts, used)


async def dead_letter_queues(context: AdminContext, vhosts: Vhosts) -> AsyncIterator[Objects]:
    """Those that others send their dead letters to, also such as are elsewhere in a cluster."""
    known: set[tuple[str, str]] = set()
    for some in steps(seen(context.async_broker.runtime, vhosts)):
        with context.async_broker.runtime as core:
            found = graveyards(core, (queue for queue in some if not queue.deleted))
        known |= {(queue.vhost, queue.name) for queue in found}
        await asyncio.sleep(0)

    def dead_lettered(some: Sequence[Queue]) -> list[Queue]:
        return [queue for queue in some if (queue.vhost, queue.name) in known]

    async for each in chosen_queues(context, vhosts, dead_lettered):
        yield each


async def rows(
    context: AdminContext, vhosts: Vhosts, entries: Sequence[ClientEntry], name: Callable[[Any], Labels]
) -> AsyncIterator[Objects]:
    """The rows of connections or channels."""
    runtime = context.async_broker.runtime
    for some in steps([entry for entry in entries if vhosts is None or entry.vhost in vhosts]):
        with runtime:
            found = [entry.row() for entry in some]
        yield Objects(runtime, [name(row) for row in found], found)
        await asyncio.sleep(0)


def all_connections(context: AdminContext, vhosts: Vhosts) -> AsyncIterator[Objects]:
    """Every connection."""
    with context.async_broker.runtime:
        entries = context.clients.connections()
    return rows(context, vhosts, entries, clients.connection_labels)


def all_channels(context: AdminContext, vhosts: Vhosts) -> AsyncIterator[Objects]:
    """Every channel."""
    with context.async_broker.runtime:
        entries = context.clients.channels()
    return rows(context, vhosts, entries, clients.channel_labels)


GROUPS = {
    "queue_coarse_metrics": MetricGroup(all_queues, queues.COARSE),
    "queue_metrics": MetricGroup(all_queues, queues.METRICS),
    "queue_consumer_count": MetricGroup(all_queues, (queues.CONSUMERS,)),
    "queue_delivery_metrics": MetricGroup(all_queues, queues.DELIVERIES),
    "connection_coarse_metrics": MetricGroup(all_connections, clients.CONNECTIONS_COARSE),
    "connection_metrics": MetricGroup(all_connections, clients.CONNECTIONS),
    "channel_metrics": MetricGroup(all_channels, clients.CHANNELS),
    "leveret_queue_metrics": MetricGroup(used_queues, queues.OWN),
    "leveret_queue_times": MetricGroup(used_queues, queues.TIMES),
    "leveret_graveyards": MetricGroup(dead_letter_queues, queues.GRAVEYARDS),
}
"""What `family` may name."""
