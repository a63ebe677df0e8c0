"""The objects that have metrics of their own, and which metrics: the families of `/metrics/detailed`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from leveret.core import browse
from leveret.core import tally as core_tally
from leveret.core.errors import BrokerClosed, JournalFailed
from leveret.core.names import INTERNAL_VHOST
from leveret.core.outcomes import DEATHS
from leveret.core.queue import Queue
from leveret.observability.exposition import EDGES_S_OF_MS, Kind, Labels, histogram, labels
from leveret.observability.statistics import graveyards
from leveret.protocols.management.queues import consumers_of, memory_bytes
from leveret.protocols.management.rates import held_messages, unacknowledged
from leveret.protocols.metrics.figure import Number, ObjectMetric, column, family
from leveret.runtime.runtime import Runtime

if TYPE_CHECKING:
    from leveret.protocols.management.context import AdminContext, ClientEntry

Row = dict[str, Any]
FAILURES = ("nacked", "timed_out", "rejected")
STEP = 1_000  # objects that are looked at in one turn of the loop, whatever there is to be said of them


def cell(name: str, help: str, key: str) -> ObjectMetric:
    """What stands in a row."""
    return column(name, help, lambda rows: list(map(itemgetter(key), rows)))


def connection_labels(row: Row) -> Labels:
    """How a connection is named in a sample."""
    return labels(connection=row["name"], vhost=row["vhost"])


def channel_labels(row: Row) -> Labels:
    """How a channel is named in a sample."""
    return labels(channel=row["name"], vhost=row["vhost"])


CONNECTIONS_COARSE = (
    cell("rabbitmq_connection_incoming_bytes_total", "Bytes received on a connection", "recv_oct"),
    cell("rabbitmq_connection_outgoing_bytes_total", "Bytes sent on a connection", "send_oct"),
)
CONNECTIONS = (
    cell("rabbitmq_connection_incoming_packets_total", "Times that something was received", "recv_cnt"),
    cell("rabbitmq_connection_outgoing_packets_total", "Times that something was sent", "send_cnt"),
    cell("leveret_connection_pending_bytes", "Bytes that the client has yet to read", "send_pend"),
    cell("rabbitmq_connection_channels", "Channels of a connection", "channels"),
)
CHANNELS = (
    cell("rabbitmq_channel_consumers", "Consumers on a channel", "consumer_count"),
    cell("rabbitmq_channel_messages_unacked", "Messages given to a channel, not settled", "messages_unacknowledged"),
    cell("rabbitmq_channel_messages_unconfirmed", "Messages published and not confirmed", "messages_unconfirmed"),
    cell("rabbitmq_channel_messages_uncommitted", "Publishes in an open transaction", "messages_uncommitted"),
    cell("rabbitmq_channel_acks_uncommitted", "Settlements in an open transaction", "acks_uncommitted"),
    cell("rabbitmq_channel_prefetch", "Messages that consumers of a channel may hold", "global_prefetch_count"),
)


def labels_of(queue: Queue) -> Labels:
    """How a queue is named in a sample."""
    return labels(vhost=queue.vhost, queue=queue.name)


def counter(name: str, help: str, *counted: str) -> ObjectMetric:
    """A counter of each queue, or the sum of some."""

    def of(queues: list[Queue]) -> Sequence[int]:
        columns = [core_tally.column(queues, each) for each in counted]
        return columns[0] if len(columns) == 1 else list(map(sum, zip(*columns, strict=True)))

    return column(name, help, of)


def gauge(name: str, help: str, of: Any) -> ObjectMetric:
    """A figure of each queue."""
    return column(name, help, lambda queues: list(map(of, queues)))


def unacked(queue: Queue) -> int:
    """What was taken and not settled; of a stream, by its readers."""
    return queue.leased or unacknowledged(queue)


def age_s(queue: Queue) -> Number | None:
    """How long the first message waits."""
    since_ms = core_tally.oldest_ms(queue)
    return None if since_ms is None else max(0, queue.engine.now_ms - since_ms) / 1_000


def deaths(name: str, labels: Sequence[Labels], queues: list[Queue]) -> str:
    """What died, by its reason, in each queue that keeps its dead."""
    pairs = zip(labels, queues, strict=True)
    keeping = [(label, queue) for label, queue in pairs if queue.policy.dead_letter_exchange is not None]
    dying = [queue for _, queue in keeping]
    lines = []
    for reason in DEATHS:
        counted = zip([label for label, _ in keeping], core_tally.column(dying, reason), strict=True)
        lines += [f'{name}{label},reason="{reason}"}} {count}\n' for label, count in counted]
    return "".join(lines)


def priorities(
    counted: Callable[[Queue], dict[int, int]], name: str, labels: Sequence[Labels], queues: list[Queue]
) -> str:
    """What waits in each queue that has priorities, or came into it, by them."""
    return "".join(
        [
            f'{name}{label},priority="{priority}"}} {count}\n'
            for label, queue in zip(labels, queues, strict=True)
            if queue.max_priority
            for priority, count in sorted(counted(queue).items())
        ]
    )


def times(which: int, name: str, labels: Sequence[Labels], queues: list[Queue]) -> str:
    """The histogram of each queue from which something was taken."""
    lines = []
    for label, queue in zip(labels, queues, strict=True):
        known = core_tally.times(queue)
        if known is not None and queue.counts["delivered"]:
            counted = known[which]
            lines.append(histogram(name, label, counted.buckets, counted.sum / 1_000, EDGES_S_OF_MS))
    return "".join(lines)


def written(name: str, help: str, lines: Any, kind: Kind | None = None) -> ObjectMetric:
    """A metric with lines of a shape of its own."""
    return ObjectMetric(family(name, help, kind), lines)


CONSUMERS = gauge("rabbitmq_queue_consumers", "Consumers of a queue", lambda queue: len(queue.consumers or ()))
COARSE = (
    gauge("rabbitmq_queue_messages_ready", "Messages that wait to be taken", lambda queue: queue.depth),
    gauge("rabbitmq_queue_messages_unacked", "Messages taken and not settled", unacked),
    gauge("rabbitmq_queue_messages", "Messages that wait or are taken", lambda queue: queue.depth + unacked(queue)),
)
METRICS = (
    CONSUMERS,
    gauge(
        "rabbitmq_queue_consumer_capacity",
        "1 if a consumer could take a message at once",
        lambda queue: consumers_of(queue)["consumer_capacity"],
    ),
    gauge("rabbitmq_queue_process_memory_bytes", "About how much memory a queue takes", memory_bytes),
    gauge("rabbitmq_queue_messages_ready_bytes", "Bodies that wait", lambda queue: queue.depth_bytes),
    counter("rabbitmq_queue_messages_published_total", "Messages that came into a queue", "published"),
)
DELIVERIES = (
    counter("rabbitmq_queue_messages_redelivered_total", "Messages handed out again", "redelivered"),
    counter("rabbitmq_queue_messages_acked_total", "Messages acknowledged", "acked"),
    counter(
        "rabbitmq_queue_messages_delivered_total",
        "Messages pushed to consumers that do not acknowledge",
        "pushed_settled",
    ),
    column(
        "rabbitmq_queue_messages_delivered_ack_total",
        "Messages pushed to consumers that acknowledge",
        lambda queues: [
            pushed - settled
            for pushed, settled in zip(
                core_tally.column(queues, "pushed"), core_tally.column(queues, "pushed_settled"), strict=True
            )
        ],
    ),
    column(
        "rabbitmq_queue_get_ack_total",
        "Messages taken one by one, to be acknowledged",
        lambda queues: [
            delivered - pushed - settled
            for delivered, pushed, settled in zip(
                *(core_tally.column(queues, name) for name in ("delivered", "pushed", "taken_settled")), strict=True
            )
        ],
    ),
    counter("rabbitmq_queue_get_total", "Messages taken by basic.get without acknowledgements", "taken_settled"),
)
OWN_QUEUES = (
    gauge("leveret_queue_messages", "All messages of a queue", held_messages),
    gauge("leveret_queue_messages_ready", "Messages that wait to be taken", lambda queue: queue.depth),
    gauge("leveret_queue_leases", "Messages taken and not settled", unacked),
    gauge("leveret_queue_messages_scheduled", "Messages that are not due yet", lambda queue: queue.scheduled),
    gauge("leveret_queue_consumers", "Consumers of a queue", lambda queue: len(queue.consumers or ())),
    gauge("leveret_queue_oldest_message_age_seconds", "How long the first message waits", age_s),
    written(
        "leveret_queue_messages_ready_by_priority",
        "Messages that wait, by priority",
        partial(priorities, browse.depth_by_priority),
    ),
    counter("leveret_queue_published_total", "Messages that came into a queue", "published"),
    written(
        "leveret_queue_published_by_priority_total",
        "Messages that came into a queue with priorities, by them",
        partial(priorities, core_tally.published_by_priority),
    ),
    counter("leveret_queue_delivered_total", "Messages handed out", "delivered"),
    counter("leveret_queue_acked_total", "Messages acknowledged", "acked"),
    counter("leveret_queue_failed_total", "Deliveries nacked, rejected or timed out", *FAILURES),
    counter("leveret_queue_refused_total", "Messages that a full queue refused", "refused"),
    written("leveret_queue_dead_letters_total", "Messages that died, by reason, where dead letters are kept", deaths),
)
TIMES = (
    written(
        "leveret_queue_waiting_seconds",
        "Time from when a message could be taken to its first delivery",
        partial(times, 0),
        "histogram",
    ),
    written(
        "leveret_queue_processing_seconds",
        "Time from the delivery of a message to its acknowledgement or rejection",
        partial(times, 1),
        "histogram",
    ),
)
GRAVEYARDS = (
    gauge(
        "leveret_queue_graveyard",
        "1: other queues send their dead letters here, which wait for people",
        lambda queue: 1,
    ),
)


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
                yield Objects(runtime, [labels_of(queue) for queue in found], found)
            await asyncio.sleep(0)


def all_queues(context: AdminContext, vhosts: Vhosts) -> AsyncIterator[Objects]:
    """Every queue."""
    return chosen_queues(context, vhosts, list)


def used_queues(context: AdminContext, vhosts: Vhosts) -> AsyncIterator[Objects]:
    """Those in which there is or was something: of a hundred thousand, mostly few."""

    def used(some: Sequence[Queue]) -> list[Queue]:
        pairs = zip(some, core_tally.column(list(some), "published"), strict=True)
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
    return rows(context, vhosts, entries, connection_labels)


def all_channels(context: AdminContext, vhosts: Vhosts) -> AsyncIterator[Objects]:
    """Every channel."""
    with context.async_broker.runtime:
        entries = context.clients.channels()
    return rows(context, vhosts, entries, channel_labels)


GROUPS = {
    "queue_coarse_metrics": MetricGroup(all_queues, COARSE),
    "queue_metrics": MetricGroup(all_queues, METRICS),
    "queue_consumer_count": MetricGroup(all_queues, (CONSUMERS,)),
    "queue_delivery_metrics": MetricGroup(all_queues, DELIVERIES),
    "connection_coarse_metrics": MetricGroup(all_connections, CONNECTIONS_COARSE),
    "connection_metrics": MetricGroup(all_connections, CONNECTIONS),
    "channel_metrics": MetricGroup(all_channels, CHANNELS),
    "leveret_queue_metrics": MetricGroup(used_queues, OWN_QUEUES),
    "leveret_queue_times": MetricGroup(used_queues, TIMES),
    "leveret_graveyards": MetricGroup(dead_letter_queues, GRAVEYARDS),
}
"""What `family` may name."""
