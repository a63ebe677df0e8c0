"""Statistics of queues as numbers, for the parts that judge, show or export them; all of it under the lock of the
broker.

Counters and histograms only grow while the broker runs: what happened in a time is the difference of two looks.

    before = look(queue)
    ...
    p95_ms = quantile(gained(look(queue).processing, before.processing), 0.95)
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from leveret.core.broker import Broker
from leveret.core.histogram import BOUNDS, quantile
from leveret.core.queue import Queue
from leveret.core.tally import oldest_ms, times
from leveret.core.topology import Vhost

__all__ = ["DEATHS", "QueueStatistics", "gained", "graveyards", "look", "quantile"]

DEATHS = ("rejected", "expired", "maxlen", "delivery_limit")
NOTHING = (0,) * (len(BOUNDS) + 1)


class QueueStatistics(NamedTuple):
    """What a queue holds, and what was counted in it since the broker started."""

    ready: int
    leased: int
    scheduled: int
    consumers: int
    waits_ms: int | None
    """How long the message that waits longest has been ready; None: none waits."""
    counts: dict[str, int]
    """By the names of leveret.core.tally.COUNTERS: published, delivered, acked, nacked, ..."""
    waiting: tuple[int, ...]
    """Messages by how long they waited for their first delivery: so many in each bucket of ms."""
    processing: tuple[int, ...]
    """Settled messages by how long their last delivery took."""

    @property
    def dead(self) -> int:
        """Messages that died, whether or not something was done with them."""
        return sum(self.counts[reason] for reason in DEATHS)

    @property
    def failed(self) -> int:
        """Deliveries that did not end in an acknowledgement."""
        return self.counts["nacked"] + self.counts["timed_out"] + self.counts["rejected"]


def look(queue: Queue) -> QueueStatistics:
    """The statistics of one queue now."""
    since_ms, known = oldest_ms(queue), times(queue)
    return QueueStatistics(
        ready=queue.depth,
        leased=queue.leased,
        scheduled=queue.scheduled,
        consumers=len(queue.consumers or ()),
        waits_ms=None if since_ms is None else max(0, queue.engine.now_ms - since_ms),
        counts=queue.counts,
        waiting=NOTHING if known is None else known[0].buckets,
        processing=NOTHING if known is None else known[1].buckets,
    )


def gained(now: Sequence[int], before: Sequence[int]) -> tuple[int, ...]:
    """What came into each bucket between two looks."""
    return tuple(each - earlier for each, earlier in zip(now, before, strict=True))


def graveyards(core: Broker, queues: Iterable[Queue]) -> set[Queue]:
    """Where these queues send their dead: what lies there waits for an operator to look at it, not for consumers."""
    found: set[Queue] = set()
    targets = {(each.vhost, each.policy.dead_letter_exchange, each.policy.dead_letter_routing_key) for each in queues}
    for vhost, exchange, key in targets:
        if exchange is not None:
            found.update(_destinations(core.topology.vhost(vhost), exchange, key))
    return found


def _destinations(virtual_host: Vhost, exchange: str, key: str | None) -> list[Queue]:
    """Where an exchange sends a key; without one, wherever it sends anything."""
    if exchange == "":
        return [virtual_host.queues[key]] if key in virtual_host.queues else []
    source = virtual_host.exchanges.get(exchange)
    if source is None:
        return []
    if key is not None and not source.internal:
        return virtual_host.route(exchange, [key], {})
    return [each.destination for each in source.bindings.values() if isinstance(each.destination, Queue)]
