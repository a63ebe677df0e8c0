"""Figures of a queue at work, under the names that rules have for them.

What can be read off a queue is read when a rule asks for it. What is counted over time (failures, dead letters,
processing times) or needs a memory (since when nothing was taken) is kept for the queues where something happens.
"""

from collections.abc import Callable

from leveret.core.histogram import quantile
from leveret.core.outcomes import DEATHS, FAILED_COUNTERS, keeps_dead
from leveret.core.queue import Queue
from leveret.core.tally import column, oldest_ms, times
from leveret.observability.alerting.rules import AlertRuleSettings
from leveret.observability.statistics import gained


class Window:
    """A count that forgets: of the window before, the share counts that still lies within the time."""

    __slots__ = ("_before", "_current", "_start_ms", "_width_ms")

    def __init__(self, width_ms: int, now_ms: int) -> None:
        self._width_ms = width_ms
        self._start_ms = now_ms
        self._before = self._current = 0

    def add(self, count: int, now_ms: int) -> None:
        """So many more happened just now."""
        self._roll(now_ms)
        self._current += count

    def total(self, now_ms: int) -> float:
        """How many it were within the time."""
        self._roll(now_ms)
        left = 1 - (now_ms - self._start_ms) / self._width_ms
        return self._current + self._before * max(0.0, left)

    def _roll(self, now_ms: int) -> None:
        """Begin the window that a time lies in."""
        passed = (now_ms - self._start_ms) // self._width_ms
        if passed >= 1:
            self._before = self._current if passed == 1 else 0
            self._current = 0
            self._start_ms += passed * self._width_ms


class BucketWindow:
    """The same for a histogram, which only grows: what was added to it since the window before began."""

    __slots__ = ("_before", "_start", "_start_ms", "_width_ms")

    def __init__(self, width_ms: int, start: tuple[int, ...], now_ms: int) -> None:
        self._width_ms = width_ms
        self._start_ms = now_ms
        self._before = self._start = start

    def added(self, buckets: tuple[int, ...], now_ms: int) -> tuple[int, ...]:
        """What was added within the time, or up to twice of it."""
        if now_ms - self._start_ms >= self._width_ms:
            self._before, self._start, self._start_ms = self._start, buckets, now_ms
        return gained(buckets, self._before)


HOUR_MS = 3_600_000
LATELY_MS = 300_000  # over which failed deliveries are compared with others, and processing times are taken
WIDTHS_MS = (HOUR_MS, LATELY_MS, LATELY_MS)
QUICK_BUCKETS = 8  # of processing times, the quickest ones: a queue without others needs no memory of them

Counts = tuple[int, int, int, int]
"""Of a queue since the process began: what died, failed deliveries, acknowledgements, deliveries."""


def counted(queues: list[Queue]) -> list[Counts]:
    """The counters of many queues."""
    dead, failed = (
        map(sum, zip(*(column(queues, name) for name in names), strict=True)) for names in (DEATHS, FAILED_COUNTERS)
    )
    return list(zip(dead, failed, column(queues, "acked"), column(queues, "delivered"), strict=True))


class Activity:
    """What a queue has been doing."""

    __slots__ = ("_counts", "_times", "_windows", "idle_since_ms")

    def __init__(self) -> None:
        """Nothing yet: the counters of a queue that was not looked at before begin with it, or with the process."""
        self._counts: Counts = (0, 0, 0, 0)
        self._windows: tuple[Window, ...] | None = None
        self._times: BucketWindow | None = None
        self.idle_since_ms: int | None = None

    def look(self, queue: Queue, counts: Counts, now_ms: int) -> None:
        before, self._counts = self._counts, counts
        # Until something goes wrong for the first time, it does not matter how much went well.
        if counts[:2] != before[:2] or self._windows is not None:
            self._count(before, counts, now_ms)
        if not queue.depth or queue.consumers or queue.leased or queue.paused:
            self.idle_since_ms = None
        elif self.idle_since_ms is None or counts[-1] != before[-1]:
            self.idle_since_ms = now_ms

    def _count(self, before: Counts, counts: Counts, now_ms: int) -> None:
        if self._windows is None:
            self._windows = tuple(Window(width_ms, now_ms) for width_ms in WIDTHS_MS)
        for index, window in enumerate(self._windows):
            window.add(counts[index] - before[index], now_ms)

    def lately(self, now_ms: int) -> tuple[float, ...]:
        """What died in the last hour; deliveries of the last minutes that failed, and that did not."""
        return (0, 0, 0) if self._windows is None else tuple(window.total(now_ms) for window in self._windows)

    def processing(self, buckets: tuple[int, ...], now_ms: int) -> tuple[int, ...]:
        """The processing times of the last minutes."""
        if self._times is None:
            self._times = BucketWindow(LATELY_MS, (0,) * len(buckets), now_ms)
        added = self._times.added(buckets, now_ms)
        if not any(added):
            self._times = BucketWindow(LATELY_MS, buckets, now_ms)
        return added


def depth(queue: Queue, activity: Activity, now_ms: int) -> float:
    """Messages that are not settled."""
    return queue.depth + queue.leased + queue.scheduled


def waiting(queue: Queue, activity: Activity, now_ms: int) -> float:
    """Messages that no consumer has taken yet."""
    return queue.depth


def oldest(queue: Queue, activity: Activity, now_ms: int) -> float:
    """The age of the oldest message that waits."""
    since_ms = oldest_ms(queue) if queue.depth else None
    return 0 if since_ms is None else max(0, now_ms - since_ms)


def dead_per_hour(queue: Queue, activity: Activity, now_ms: int) -> float:
    """Dead letters of the last hour; where they are not kept, there are none."""
    return activity.lately(now_ms)[0] if keeps_dead(queue.policy) else 0


def error_share(queue: Queue, activity: Activity, now_ms: int) -> float:
    """Of the deliveries that ended lately, how many failed."""
    _, failed, acked = activity.lately(now_ms)
    return failed / (failed + acked) if failed else 0


def ended(queue: Queue, activity: Activity, now_ms: int) -> float:
    """Deliveries that ended lately, well or not."""
    return sum(activity.lately(now_ms)[1:])


def processing_p95(queue: Queue, activity: Activity, now_ms: int) -> float:
    """What 95 % of the processing times of the last minutes are below."""
    found = times(queue)
    buckets = () if found is None else found[1].buckets
    if not any(buckets[QUICK_BUCKETS:]):
        return 0
    return quantile(activity.processing(buckets, now_ms), 0.95) or 0


def idle(queue: Queue, activity: Activity, now_ms: int) -> float:
    """How long messages have waited without a consumer that takes them."""
    return 0 if activity.idle_since_ms is None else now_ms - activity.idle_since_ms


Figure = Callable[[Queue, Activity, int], float]
FIGURES: dict[str, Figure] = {
    "depth_max": depth,
    "waiting_max": waiting,
    "oldest_ms": oldest,
    "dead_per_hour": dead_per_hour,
    "error_share": error_share,
    "processing_p95_ms": processing_p95,
    "idle_ms": idle,
}
SAMPLES: dict[str, Figure] = {"error_share": ended}
"""What says of how many cases a figure is, which rules may want to be enough."""
MEMORY_MS = {"dead_per_hour": HOUR_MS, "error_share": LATELY_MS, "processing_p95_ms": LATELY_MS}
"""How long a process must have looked at a queue before a low figure means that the queue is well."""


def is_known(rule: AlertRuleSettings, queue: Queue, activity: Activity, watched_ms: int, now_ms: int) -> bool:
    """Whether a process that has looked at a queue for so long can tell that it does not break a rule."""
    if rule.figure == "idle_ms":
        return activity.idle_since_ms is None or watched_ms >= rule.limit
    sample = SAMPLES.get(rule.figure)
    enough = sample is not None and sample(queue, activity, now_ms) >= max(rule.sample_min, 1)
    return enough or watched_ms >= MEMORY_MS.get(rule.figure, 0)
