"""Figures of a queue at work, under the names that rules have for them.

What can be read off a queue is read when a rule asks for it. What is counted over time (failures, dead letters) or
needs a memory (since when nobody takes anything) is kept for the queues where something happens: `Activity`.
"""

from collections.abc import Callable

from leveret.alerting.windows import Window
from leveret.core.browse import oldest_ms
from leveret.core.queue import Queue

HOUR_MS = 3_600_000
SHARE_MS = 300_000  # over which failed deliveries are compared with others
WIDTHS_MS = (HOUR_MS, SHARE_MS, SHARE_MS)

DEAD = ("rejected", "expired", "maxlen", "delivery_limit")
FAILED = ("rejected", "delivery_limit", "nacked", "timed_out")


class Activity:
    """What a queue has been doing."""

    __slots__ = ("_counts", "_taken", "_windows", "idle_since_ms")

    def __init__(self) -> None:
        """Nothing yet: the counters of a queue that nobody has looked at begin with it, or with the process."""
        self._counts: tuple[int, ...] = (0, 0, 0)
        self._taken = 0
        self._windows: tuple[Window, ...] | None = None
        self.idle_since_ms: int | None = None

    def look(self, queue: Queue, now_ms: int) -> None:
        """See what was counted since the last look."""
        counts = queue.counts
        dead = sum(map(counts.__getitem__, DEAD)) if queue.policy.dead_letter_exchange is not None else 0
        fresh = (dead, sum(map(counts.__getitem__, FAILED)), counts["acked"])
        if fresh != self._counts:
            self._count(fresh, now_ms)
        taken, self._taken = self._taken, counts["delivered"]
        if not queue.depth or queue.consumers or queue.leased or queue.paused:
            self.idle_since_ms = None
        elif self.idle_since_ms is None or taken != self._taken:
            self.idle_since_ms = now_ms

    def _count(self, fresh: tuple[int, ...], now_ms: int) -> None:
        if self._windows is None:
            self._windows = tuple(Window(width_ms, now_ms) for width_ms in WIDTHS_MS)
        for window, after, before in zip(self._windows, fresh, self._counts, strict=True):
            window.add(max(0, after - before), now_ms)
        self._counts = fresh

    def lately(self, now_ms: int) -> tuple[float, ...]:
        """Dead letters of the last hour; deliveries of the last minutes that failed, and that did not."""
        return (0, 0, 0) if self._windows is None else tuple(window.total(now_ms) for window in self._windows)


def depth(queue: Queue, activity: Activity, now_ms: int) -> float:
    """Messages that are not settled."""
    return queue.depth + queue.leased + queue.scheduled


def waiting(queue: Queue, activity: Activity, now_ms: int) -> float:
    """Messages that nobody has taken yet."""
    return queue.depth


def oldest(queue: Queue, activity: Activity, now_ms: int) -> float:
    """The age of the oldest message that waits."""
    since_ms = oldest_ms(queue) if queue.depth else None
    return 0 if since_ms is None else max(0, now_ms - since_ms)


def dead_per_hour(queue: Queue, activity: Activity, now_ms: int) -> float:
    """Dead letters of the last hour."""
    return activity.lately(now_ms)[0]


def error_share(queue: Queue, activity: Activity, now_ms: int) -> float:
    """Of the deliveries that ended lately, how many failed."""
    _, failed, acked = activity.lately(now_ms)
    return failed / (failed + acked) if failed else 0


def ended(queue: Queue, activity: Activity, now_ms: int) -> float:
    """Deliveries that ended lately, well or not."""
    return sum(activity.lately(now_ms)[1:])


def idle(queue: Queue, activity: Activity, now_ms: int) -> float:
    """How long messages have waited with nobody there to take them."""
    return 0 if activity.idle_since_ms is None else now_ms - activity.idle_since_ms


Figure = Callable[[Queue, Activity, int], float]
FIGURES: dict[str, Figure] = {
    "depth_max": depth,
    "waiting_max": waiting,
    "oldest_ms": oldest,
    "dead_per_hour": dead_per_hour,
    "error_share": error_share,
    "idle_ms": idle,
}
SAMPLES: dict[str, Figure] = {"error_share": ended}
"""What says of how many cases a figure is, which rules may want to be enough."""
