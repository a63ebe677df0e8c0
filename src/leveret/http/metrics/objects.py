"""The objects that have metrics of their own, and which metrics: the families of `/metrics/detailed`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from leveret.core.queue import Queue
from leveret.core.tally import column
from leveret.http.metrics import clients, queues
from leveret.http.metrics.figure import Column
from leveret.telemetry.exposition import Labels
from leveret.telemetry.statistics import graveyards

if TYPE_CHECKING:
    from leveret.http.management.site import Entry, Site

STEP = 1_000  # objects that are looked at in one turn of the loop, whatever there is to be said of them


class Objects(NamedTuple):
    """Some of one kind, and how each is named."""

    labels: list[Labels]
    objects: list[Any]


Vhosts = frozenset[str] | None
Find = Callable[["Site", Vhosts], AsyncIterator[tuple[Labels, Any]]]


class Group(NamedTuple):
    """Metrics that are asked for together."""

    find: Find
    columns: Sequence[Column]


def steps(objects: Sequence[Any]) -> list[Sequence[Any]]:
    """A list in pieces that can be looked at in one turn."""
    return [objects[start : start + STEP] for start in range(0, len(objects), STEP)]


def seen(site: Site, vhosts: Vhosts) -> list[Queue]:
    """The queues of these virtual hosts, or of all."""
    with site.desk.guard as core:
        homes = [home for home in core.topology.vhosts.values() if vhosts is None or home.name in vhosts]
        return [queue for home in homes for queue in home.queues.values()]


async def all_queues(site: Site, vhosts: Vhosts) -> AsyncIterator[tuple[Labels, Any]]:
    """Every queue."""
    for some in steps(seen(site, vhosts)):
        for queue in some:
            yield queues.labels_of(queue), queue
        await asyncio.sleep(0)


async def used_queues(site: Site, vhosts: Vhosts) -> AsyncIterator[tuple[Labels, Any]]:
    """Those in which there is or was something: of a hundred thousand, mostly few."""
    for some in steps(seen(site, vhosts)):
        for queue, published in zip(some, column(list(some), "published"), strict=True):
            if published or queue.depth or queue.leased or queue.scheduled:
                yield queues.labels_of(queue), queue
        await asyncio.sleep(0)


async def dead_letter_queues(site: Site, vhosts: Vhosts) -> AsyncIterator[tuple[Labels, Any]]:
    """Those that others send their dead letters to."""
    known: set[Queue] = set()
    for some in steps(seen(site, vhosts)):
        with site.desk.guard as core:
            found = graveyards(core, (queue for queue in some if not queue.deleted)) - known
        known |= found
        for queue in found:
            yield queues.labels_of(queue), queue
        await asyncio.sleep(0)


async def rows(
    site: Site, vhosts: Vhosts, entries: Sequence[Entry], name: Callable[[Any], Labels]
) -> AsyncIterator[tuple[Labels, Any]]:
    """The rows of connections or channels."""
    for some in steps([entry for entry in entries if vhosts is None or entry.vhost in vhosts]):
        with site.desk.guard:
            found = [entry.row() for entry in some]
        for row in found:
            yield name(row), row
        await asyncio.sleep(0)


def all_connections(site: Site, vhosts: Vhosts) -> AsyncIterator[tuple[Labels, Any]]:
    """Every connection."""
    with site.desk.guard:
        entries = site.clients.connections()
    return rows(site, vhosts, entries, clients.connection_labels)


def all_channels(site: Site, vhosts: Vhosts) -> AsyncIterator[tuple[Labels, Any]]:
    """Every channel."""
    with site.desk.guard:
        entries = site.clients.channels()
    return rows(site, vhosts, entries, clients.channel_labels)


GROUPS = {
    "queue_coarse_metrics": Group(all_queues, queues.COARSE),
    "queue_metrics": Group(all_queues, queues.METRICS),
    "queue_consumer_count": Group(all_queues, (queues.CONSUMERS,)),
    "queue_delivery_metrics": Group(all_queues, queues.DELIVERIES),
    "connection_coarse_metrics": Group(all_connections, clients.CONNECTIONS_COARSE),
    "connection_metrics": Group(all_connections, clients.CONNECTIONS),
    "channel_metrics": Group(all_channels, clients.CHANNELS),
    "leveret_queue_metrics": Group(used_queues, queues.OWN),
    "leveret_queue_times": Group(used_queues, queues.TIMES),
    "leveret_graveyards": Group(dead_letter_queues, queues.GRAVEYARDS),
}
"""What `family` may name."""
