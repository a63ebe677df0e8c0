"""A look at every queue of a broker, some in each turn of the loop: figures are held against rules."""

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

from leveret.alerting.engine import Engine, Event
from leveret.alerting.figures import FIGURES, SAMPLES, Activity, Figure
from leveret.alerting.graveyards import Graveyards
from leveret.alerting.rules import ABOUT_WAITING, Rule
from leveret.core.queue import Queue
from leveret.embedded.guard import Guard

STEP = 500  # queues that one hold of the lock looks at: some milliseconds
FOLLOWED_MAX = 200_000  # queues with a memory of what they did; others are judged by what is in them
LAG = "lag_max"

Lags = Callable[[], Iterable[tuple[str, str, int]]]
"""Virtual host, stream and the lag of each consumer group; under the lock."""


class Check(NamedTuple):
    """A rule with what it needs to be held against a queue."""

    rule: Rule
    figure: Figure
    sample: Figure | None
    about_waiting: bool


class Watch:
    """Looks at queues, and remembers what they were doing."""

    def __init__(self, guard: Guard, engine: Engine, lags: Lags) -> None:
        """Nothing was looked at yet."""
        self._guard = guard
        self._engine = engine
        self._lags = lags
        self._activities: dict[int, Activity] = {}
        self._graveyards = Graveyards()

    async def look(self, rules: list[Rule]) -> list[Event]:
        """Look at everything once; give what changed."""
        checks = checks_of(rules)
        with self._guard as core:
            queues = [queue for queue in core.queues.values() if queue.recorder is None]
            now_ms = core.now_ms
        waiting = iter(queues)
        while step := list(islice(waiting, STEP)):
            with self._guard:
                for queue in step:
                    if not queue.deleted:
                        self._look_at(queue, checks, now_ms)
            await asyncio.sleep(0)
        with self._guard as core:
            self._judge_streams([rule for rule in rules if rule.figure == LAG], now_ms)
            self._graveyards.finish(core)
            if len(self._activities) > len(queues) // 2:
                self._forget(core.queues)
            return self._engine.finish(now_ms)

    def _look_at(self, queue: Queue, checks: list[Check], now_ms: int) -> None:
        """Hold one queue against all rules."""
        self._graveyards.look(queue)
        activity = self._activity(queue, now_ms)
        if activity is None and (queue.vhost, queue.name) not in self._engine.queues:
            return
        activity = activity or NOTHING
        buried = queue in self._graveyards
        for rule, figure, sample, about_waiting in checks:
            if buried and about_waiting:
                continue
            value = figure(queue, activity, now_ms)
            if value <= rule.clear or not rule.covers(queue.vhost, queue.name):
                continue
            if sample is None or sample(queue, activity, now_ms) >= rule.sample_min:
                self._engine.judge(rule, queue.vhost, queue.name, value, now_ms)

    def _activity(self, queue: Queue, now_ms: int) -> Activity | None:
        """What a queue is doing; None when nothing is in it and nothing ever happened."""
        activity = self._activities.get(queue.id)
        if activity is None:
            if not queue.used and not queue.depth:
                return None
            activity = Activity()
            if len(self._activities) < FOLLOWED_MAX:
                self._activities[queue.id] = activity
        activity.look(queue, now_ms)
        return activity
