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
from leveret.protocols.metrics.figure import Column
from leveret.runtime.runtime import Guard

if TYPE_CHECKING:
    from leveret.protocols.management.context import Entry, Site

STEP = 1_000  # objects that are looked at in one turn of the loop, whatever there is to be said of them


class Objects(NamedTuple):
    """Some of one kind, at most STEP, and how each is named; they are looked at under the lock of their broker."""

    guard: Guard
    labels: list[Labels]
    objects: list[Any]


Vhosts = frozenset[str] | None
Find = Callable[["Site", Vhosts], AsyncIterator[Objects]]
Choose = Callable[[Sequence[Queue]], list[Queue]]


class Group(NamedTuple):
    """Metrics that are asked for together."""

    find: Find
    columns: Sequence[Column]


def steps(objects: Sequence[Any]) -> list[Sequence[Any]]:
    """A list in pieces that can be looked at in one turn."""
    return [objects[start : start + STEP] for start in range(0, len(objects), STEP)]


def seen(guard: Guard, vhosts: Vhosts) -> list[Queue]:
    """The queues of these virtual hosts, or of all; none of a shard that has just gone."""
    with suppress(BrokerClosed, JournalFailed), guard as core:
        homes = [home for home in core.topology.vhosts.values() if vhosts is None or home.name in vhosts]
        return [queue for home in homes if home.name != INTERNAL_VHOST for queue in home.queues.values()]
    return []


async def chosen_queues(site: Site, vhosts: Vhosts, choose: Choose) -> AsyncIterator[Objects]:
    """Some queues of each step."""
    for guard in site.guards:
        for some in steps(seen(guard, vhosts)):
            found = choose(some)
            if found:
                yield Objects(guard, [queues.labels_of(queue) for queue in found], found)
            await asyncio.sleep(0)


def all_queues(site: Site, vhosts: Vhosts) -> AsyncIterator[Objects]:
    """Every queue."""
    return chosen_queues(site, vhosts, list)


def used_queues(site: Site, vhosts: Vhosts) -> AsyncIterator[Objects]:
    """Those in which there is or was something: of a hundred thousand, mostly few."""

    def used(some: Sequence[Queue]) -> list[Queue]:
        pairs = zip(some, column(list(some), "published"), strict=True)
        return [each for each, published in pairs if published or each.depth or each.leased or each.scheduled]

    return chosen_queues(site, vhosts, used)


async def dead_letter_queues(site: Site, vhosts: Vhosts) -> AsyncIterator[Objects]:
    """Those that others send their dead letters to, also such as are elsewhere in a cluster."""
    known: set[tuple[str, str]] = set()
    for some in steps(seen(site.desk.guard, vhosts)):
        with site.desk.guard as core:
            found = graveyards(core, (queue for queue in some if not queue.deleted))
        known |= {(queue.vhost, queue.name) for queue in found}
        await asyncio.sleep(0)

    def buried(some: Sequence[Queue]) -> list[Queue]:
        return [queue for queue in some if (queue.vhost, queue.name) in known]

    async for each in chosen_queues(site, vhosts, buried):
        yield each


async def rows(
    site: Site, vhosts: Vhosts, entries: Sequence[Entry], name: Callable[[Any], Labels]
) -> AsyncIterator[Objects]:
    """The rows of connections or channels."""
    guard = site.desk.guard
    for some in steps([entry for entry in entries if vhosts is None or entry.vhost in vhosts]):
        with guard:
            found = [entry.row() for entry in some]
        yield Objects(guard, [name(row) for row in found], found)
        await asyncio.sleep(0)


def all_connections(site: Site, vhosts: Vhosts) -> AsyncIterator[Objects]:
    """Every connection."""
    with site.desk.guard:
        entries = site.clients.connections()
    return rows(site, vhosts, entries, clients.connection_labels)


def all_channels(site: Site, vhosts: Vhosts) -> AsyncIterator[Objects]:
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
