"""Figures of each queue: RabbitMQ's, and our own, which leave out queues that never had a message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from leveret.core import browse
from leveret.core import tally as core_tally
from leveret.core.queue import Queue
from leveret.observability.exposition import EDGES_S_OF_MS, Family, Kind, Labels, histogram, labels
from leveret.observability.statistics import DEATHS
from leveret.protocols.management.queues import consumers_of, memory_bytes
from leveret.protocols.management.rates import held_messages, unacknowledged
from leveret.protocols.metrics.figure import Number, ObjectMetric, column

FAILURES = ("nacked", "timed_out", "rejected")


def labels_of(queue: Queue) -> Labels:
    """How a queue is named in a sample."""
    return labels(vhost=queue.vhost, queue=queue.name)


def counter(name: str, help: str, *counted: str) -> ObjectMetric:
    """A counter of each queue, or the sum of some."""

    def of(queues: list[Queue]) -> Sequence[int]:
        columns = [core_tally.column(queues, each) for each in counted]
        return columns[0] if len(columns) == 1 else list(map(sum, zip(*columns, strict=True)))

    return column(name, "counter", help, of)


def gauge(name: str, help: str, of: Any) -> ObjectMetric:
    """A figure of each queue."""
    return column(name, "gauge", help, lambda queues: list(map(of, queues)))


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


def written(name: str, kind: Kind, help: str, lines: Any) -> ObjectMetric:
    """A metric with lines of a shape of its own."""
    return ObjectMetric(Family(name, kind, help), lines)


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
        "counter",
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
        "counter",
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
OWN = (
    gauge("leveret_queue_messages", "All messages of a queue", held_messages),
    gauge("leveret_queue_messages_ready", "Messages that wait to be taken", lambda queue: queue.depth),
    gauge("leveret_queue_leases", "Messages taken and not settled", unacked),
    gauge("leveret_queue_messages_scheduled", "Messages that are not due yet", lambda queue: queue.scheduled),
    gauge("leveret_queue_consumers", "Consumers of a queue", lambda queue: len(queue.consumers or ())),
    gauge("leveret_queue_oldest_message_age_seconds", "How long the first message waits", age_s),
    written(
        "leveret_queue_messages_ready_by_priority",
        "gauge",
        "Messages that wait, by priority",
        partial(priorities, browse.depth_by_priority),
    ),
    counter("leveret_queue_published_total", "Messages that came into a queue", "published"),
    written(
        "leveret_queue_published_by_priority_total",
        "counter",
        "Messages that came into a queue with priorities, by them",
        partial(priorities, core_tally.published_by_priority),
    ),
    counter("leveret_queue_delivered_total", "Messages handed out", "delivered"),
    counter("leveret_queue_acked_total", "Messages acknowledged", "acked"),
    counter("leveret_queue_failed_total", "Deliveries nacked, rejected or timed out", *FAILURES),
    counter("leveret_queue_refused_total", "Messages that a full queue refused", "refused"),
    written(
        "leveret_queue_dead_letters_total",
        "counter",
        "Messages that died, by reason, where dead letters are kept",
        deaths,
    ),
)
TIMES = (
    written(
        "leveret_queue_waiting_seconds",
        "histogram",
        "Time from when a message could be taken to its first delivery",
        partial(times, 0),
    ),
    written(
        "leveret_queue_processing_seconds",
        "histogram",
        "Time from the delivery of a message to its acknowledgement or rejection",
        partial(times, 1),
    ),
)
GRAVEYARDS = (
    gauge(
        "leveret_queue_graveyard",
        "1: other queues send their dead letters here, which wait for people",
        lambda queue: 1,
    ),
)
