"""A look at every queue of a broker, some in each turn of the loop: figures are held against rules."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeVar

from leveret.core.broker import Broker
from leveret.core.errors import BrokerClosed, JournalFailed
from leveret.core.names import INTERNAL_VHOST
from leveret.core.queue import Queue
from leveret.core.tally import times
from leveret.observability.alerting.engine import AlertEngine, AlertEvent, Key
from leveret.observability.alerting.figures import FIGURES, SAMPLES, Activity, Counts, Figure, counted, is_known
from leveret.observability.alerting.rules import ABOUT_WAITING, AlertRuleSettings
from leveret.observability.statistics import graveyards
from leveret.runtime.runtime import Runtime

STEP = 500  # queues or groups that one hold of the lock looks at: a millisecond or two
FOLLOWED_MAX = 200_000  # queues with a memory of what they did; others are judged by what is in them
LAG = "lag_max"

T = TypeVar("T")
Name = tuple[str, str]
"""Virtual host and name of a queue."""
Activities = dict[int, Activity]


class GroupReaders(Protocol):
    """Consumer groups of streams; under the lock."""

    def groups(self) -> list[Any]: ...  # every group
    def lag(self, group: Any) -> tuple[str, str, int] | None:
        """Virtual host and stream of a group, and how far it is behind; None when it is gone."""


class RuleCheck(NamedTuple):
    """A rule with what it needs to be held against a queue."""

    rule: AlertRuleSettings
    figure: Figure
    sample: Figure | None
    about_waiting: bool


def checks_of(rules: Iterable[AlertRuleSettings]) -> list[RuleCheck]:
    """The rules about queues that are in force."""
    return [
        RuleCheck(rule, FIGURES[rule.figure], SAMPLES.get(rule.figure), rule.figure in ABOUT_WAITING)
        for rule in rules
        if rule.enabled and rule.figure in FIGURES
    ]


class QueueWatch:
    """Looks at queues, and remembers what they were doing."""

    def __init__(
        self,
        definitions: Runtime,
        runtimes: Callable[[], Sequence[Runtime]],
        engine: AlertEngine,
        readers: Callable[[Runtime], GroupReaders],
    ) -> None:
        """Nothing was looked at yet; the definitions are those of all queues, the runtimes have the queues."""
        self._definitions = definitions
        self._runtimes = runtimes
        self._engine = engine
        self._readers = readers
        self._activities: dict[Runtime, dict[int, Activity]] = {}

    async def look(self, rules: list[AlertRuleSettings]) -> list[AlertEvent]:
        """Look at everything once; give what changed."""
        dead_lettered: set[Name] = set()
        with self._definitions as core:
            everything, now_ms = list(core.queues.values()), core.now_ms
        async for some in _steps(self._definitions, everything):
            found = graveyards(core, [queue for queue in some if not queue.deleted])
            dead_lettered |= {(queue.vhost, queue.name) for queue in found}
        runtimes = self._runtimes()
        here: set[Name] = set()
        unknown: set[Key] = set()
        self._activities = {runtime: self._activities.get(runtime, {}) for runtime in runtimes}
        for runtime in runtimes:
            with suppress(BrokerClosed, JournalFailed):  # a shard may go meanwhile
                await self._look_at(runtime, rules, dead_lettered)
                here |= self._troubled(runtime)
                unknown |= self._unknown(runtime, rules)
        with self._definitions as core:
            return self._engine.finish(now_ms, lambda *name: name not in here and _exists(core, *name), unknown)

    def _troubled(self, runtime: Runtime) -> set[Name]:
        """The queues of a broker that there are alerts about."""
        with runtime as core:
            return {(vhost, queue) for _, vhost, queue in self._engine.alerts if _exists(core, vhost, queue)}

    def _unknown(self, runtime: Runtime, rules: list[AlertRuleSettings]) -> set[Key]:
        """The restored alerts about queues of a broker whose figures this process cannot tell yet."""
        enabled, activities = {rule.name: rule for rule in rules if rule.enabled}, self._activities[runtime]
        found = set()
        with runtime as core:
            for key, alert in self._engine.alerts.items():
                rule, queue = enabled.get(key[0]), _queue(core, *key[1:])
                if alert.restored_ms is None or rule is None or queue is None or not rule.covers(*key[1:]):
                    continue
                activity, watched_ms = activities.get(queue.id) or Activity(), core.now_ms - alert.restored_ms
                if not is_known(rule, queue, activity, watched_ms, core.now_ms):
                    found.add(key)
        return found

    async def _look_at(self, runtime: Runtime, rules: list[AlertRuleSettings], dead_lettered: set[Name]) -> None:
        """Look at the queues and streams of one broker."""
        checks, lag_rules = checks_of(rules), [rule for rule in rules if rule.enabled and rule.figure == LAG]
        activities, readers = self._activities[runtime], self._readers(runtime)
        with runtime as core:
            queues, groups = list(core.queues.values()), readers.groups() if lag_rules else []
            now_ms = core.now_ms
        async for some in _steps(runtime, queues):
            self._look_at_some(some, activities, checks, dead_lettered, now_ms)
        lags: dict[Name, int] = {}
        async for these in _steps(runtime, groups):
            _measure(readers, these, lags)
        with runtime as core:
            self._judge_streams(lags, lag_rules, now_ms)
            for number in [each for each in activities if each not in core.queues]:
                del activities[number]

    def _look_at_some(
        self,
        queues: list[Queue],
        activities: Activities,
        checks: list[RuleCheck],
        dead_lettered: set[Name],
        now_ms: int,
    ) -> None:
        """Look at some queues; streams are looked at by their groups."""
        wanted = [queue for queue in queues if _matters(queue)]
        for queue, counts in zip(wanted, counted(wanted), strict=True):
            activity = self._activity(activities, queue, counts, now_ms)
            for rule, figure, sample, about_waiting in checks:
                value = figure(queue, activity, now_ms)
                # Most are far from it: only for the rest does it matter which queues the rule is about.
                if value <= rule.clear or (about_waiting and (queue.vhost, queue.name) in dead_lettered):
                    continue
                if rule.covers(queue.vhost, queue.name) and (
                    sample is None or sample(queue, activity, now_ms) >= rule.sample_min
                ):
                    self._engine.judge(rule, queue.vhost, queue.name, value, now_ms)

    def _activity(self, activities: Activities, queue: Queue, counts: Counts, now_ms: int) -> Activity:
        """What a queue has been doing."""
        activity = activities.get(queue.id)
        if activity is None:
            activity = Activity()
            if len(activities) < FOLLOWED_MAX:
                activities[queue.id] = activity
        activity.look(queue, counts, now_ms)
        return activity

    def _judge_streams(self, lags: dict[Name, int], rules: list[AlertRuleSettings], now_ms: int) -> None:
        """Hold the lags of streams against rules."""
        for (vhost, stream), lag in lags.items():
            for rule in rules:
                if lag > rule.clear and rule.covers(vhost, stream):
                    self._engine.judge(rule, vhost, stream, lag, now_ms)


async def _steps(runtime: Runtime, everything: list[T]) -> AsyncIterator[list[T]]:
    """Some after the other, each in a turn of the loop and under the lock."""
    for start in range(0, len(everything), STEP):
        with runtime:
            yield everything[start : start + STEP]
        await asyncio.sleep(0)


def _queue(core: Broker, vhost: str, queue: str) -> Queue | None:
    virtual_host = core.topology.vhosts.get(vhost)
    return None if virtual_host is None else virtual_host.queues.get(queue)


def _exists(core: Broker, vhost: str, queue: str) -> bool:
    return _queue(core, vhost, queue) is not None


def _measure(readers: GroupReaders, groups: list[Any], lags: dict[Name, int]) -> None:
    """Note the lag of the slowest group of each stream."""
    for group in groups:
        found = readers.lag(group)
        if found is not None:
            vhost, stream, lag = found
            lags[vhost, stream] = max(lag, lags.get((vhost, stream), 0))


def _matters(queue: Queue) -> bool:
    """Whether anything can be wrong with a queue: of very many, most are empty and always were."""
    if queue.deleted or queue.recorder is not None or queue.vhost == INTERNAL_VHOST:
        return False
    return queue.depth > 0 or queue.leased > 0 or queue.scheduled > 0 or times(queue) is not None
