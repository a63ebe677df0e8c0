"""How fast things happen: counters looked at every few seconds, and what they were for the last minute.

Queues in which nothing happens have no history; that of all together is an hour long. Totals only grow: those of a
deleted queue stay in them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from operator import add
from typing import Any, NamedTuple

from leveret.core.broker import Broker
from leveret.core.errors import BrokerClosed, JournalFailed
from leveret.core.names import INTERNAL_VHOST
from leveret.core.queue import Queue
from leveret.core.tally import column
from leveret.observability.logs import Log
from leveret.observability.rounds import make_rounds
from leveret.runtime.runtime import Runtime

SAMPLE_S = 5.0
HISTORY = 13  # samples, a minute
TOTAL_HISTORY = 721  # of the whole broker, an hour
SERIES_MAX = 10_000  # queues with a history: each takes some KiB
STEP = 1_000  # queues that one hold of the lock looks at
LOG = Log("management")

STATS = ("publish", "deliver_get", "deliver", "deliver_no_ack", "get", "redeliver", "ack")
DEPTHS = ("messages", "messages_ready", "messages_unacknowledged")
COUNTERS = ("published", "delivered", "pushed", "pushed_settled", "redelivered", "acked")
IDLE = (0,) * (len(STATS) + len(DEPTHS))
DEPTH_INDEXES = range(len(STATS), len(STATS) + len(DEPTHS))


class SampleRange(NamedTuple):
    """Which samples are asked for: of the last `age_s` seconds, one every `step_s`."""

    age_s: int
    step_s: int

    @property
    def samples(self) -> int:
        """How many samples there are from one that is told to the next."""
        return max(1, int(self.step_s // SAMPLE_S))


class SampleSeries:
    """The last samples of some counters."""

    __slots__ = ("samples",)

    def __init__(self, samples_max: int = HISTORY) -> None:
        self.samples: deque[tuple[int, tuple[int, ...]]] = deque(maxlen=samples_max)

    def add(self, at_ms: int, values: tuple[int, ...]) -> None:
        self.samples.append((at_ms, values))

    @property
    def last(self) -> tuple[int, ...]:
        return self.samples[-1][1] if self.samples else IDLE

    @property
    def still(self) -> bool:
        """Whether nothing has changed for as long as we remember."""
        return len(self.samples) == HISTORY and self.samples[0][1] == self.samples[-1][1]

    def details(self, index: int, range: SampleRange | None = None) -> dict[str, Any]:
        """The rate of a counter; with a range, its samples too, the newest first."""
        if len(self.samples) < 2:
            return {"rate": 0.0}
        (earlier_ms, earlier), (now_ms, now) = self.samples[-2], self.samples[-1]
        found: dict[str, Any] = {"rate": _rate(now[index] - earlier[index], now_ms - earlier_ms)}
        if range is not None:
            rows = [(at_ms, values[index]) for at_ms, values in reversed(self.samples)]
            rows = [row for row in rows if row[0] >= now_ms - range.age_s * 1_000][:: range.samples]
            found["samples"] = [{"sample": value, "timestamp": at_ms} for at_ms, value in rows]
            found["avg"] = sum(value for _, value in rows) / len(rows)
            found["avg_rate"] = _rate(rows[0][1] - rows[-1][1], rows[0][0] - rows[-1][0])
        return found


STILL = SampleSeries()


class Rates:
    """The history of the queues where something happens, and of all together."""

    def __init__(self, runtime: Runtime, churn: Callable[[], dict[str, int]], samples_max: int = TOTAL_HISTORY) -> None:
        """`churn` tells how many connections and channels have come and gone."""
        self._runtime = runtime
        self._churn = churn
        self._series: dict[int, SampleSeries] = {}
        self._known: dict[int, tuple[int, ...]] = {}
        self.vhosts: dict[str, SampleSeries] = {}
        self.total = SampleSeries(samples_max)
        self.depth = SampleSeries(samples_max)
        self.churned = SampleSeries()
        self._totals = [0] * len(STATS)
        with runtime as core:
            self._first_queue, self._first_count = core.log.last_queue_id, len(core.queues)

    async def run(self) -> None:
        """Look every few seconds, until it is cancelled."""
        await make_rounds(self.sample, SAMPLE_S, lambda error: LOG.warning("rates not sampled", reason=error))

    async def sample(self) -> None:
        """Look at every queue once, some at a time."""
        with self._runtime as core:
            queues = [queue for queue in core.queues.values() if queue.vhost != INTERNAL_VHOST]
            now_ms = core.now_ms
        sums: dict[str, list[int]] = {}
        waiting = iter(queues)
        while step := list(islice(waiting, STEP)):
            with self._runtime:
                self._look(step, now_ms, sums)
            await asyncio.sleep(0)
        with self._runtime as core:
            self._finish(core, now_ms, sums)

    def _look(self, queues: list[Queue], now_ms: int, sums: dict[str, list[int]]) -> None:
        """Look at some queues, and add them to the sums of their virtual hosts."""
        for queue, values in zip(queues, counted_all(queues), strict=True):
            before = self._known.get(queue.id)
            if before != values:
                self._known[queue.id] = values
                for index in range(len(STATS)):
                    self._totals[index] += values[index] - (before[index] if before else 0)
            if queue.id in self._series or (before is not None and before != values and len(self._series) < SERIES_MAX):
                self._follow(queue.id, now_ms, before or values, values)
            known = sums.get(queue.vhost)
            if known is None:
                sums[queue.vhost] = list(values)
            elif values != IDLE:
                sums[queue.vhost] = list(map(add, known, values))

    def _follow(self, number: int, now_ms: int, before: tuple[int, ...], values: tuple[int, ...]) -> None:
        """Keep a sample of a queue; forget one in which nothing happens any more."""
        series = self._series.get(number)
        if series is None:
            series = self._series[number] = SampleSeries()
            series.add(now_ms - int(SAMPLE_S * 1_000), before)
        series.add(now_ms, values)
        if series.still:
            del self._series[number]

    def _finish(self, core: Broker, now_ms: int, sums: dict[str, list[int]]) -> None:
        """Keep the totals, and forget queues that are gone."""
        self.total.add(now_ms, tuple(self._totals))
        self.depth.add(now_ms, tuple(sum(each[index] for each in sums.values()) for index in DEPTH_INDEXES))
        self.vhosts = {name: self.vhosts.get(name) or SampleSeries() for name in sums}
        for name, values in sums.items():
            self.vhosts[name].add(now_ms, tuple(values))
        self.churned.add(now_ms, tuple(self.churn(core).values()))
        for known in (self._known, self._series):
            for number in [each for each in known if each not in core.queues]:
                del known[number]

    def churn(self, core: Broker) -> dict[str, int]:
        """What has come and gone."""
        created = core.log.last_queue_id - self._first_queue
        deleted = max(0, self._first_count + created - len(core.queues))
        queues = {"queue_declared": created, "queue_created": created, "queue_deleted": deleted}
        return {**self._churn(), **queues}

    def of_vhost(self, name: str) -> SampleSeries:
        return self.vhosts.get(name, STILL)

    def of(self, queue: Queue) -> SampleSeries:
        return self._series.get(queue.id, STILL)


def counted(queue: Queue) -> tuple[int, ...]:
    """The counters of a queue in the order of STATS, then what is in it in that of DEPTHS."""
    return counted_all([queue])[0]


def counted_all(queues: list[Queue]) -> list[tuple[int, ...]]:
    """The same of many queues: counter by counter, since most of them say nothing."""
    rows = zip(queues, *(column(queues, name) for name in COUNTERS), strict=True)
    return [
        (
            published,
            delivered,
            pushed - settled,
            settled,
            delivered - pushed,
            redelivered,
            acked,
            held_messages(queue),
            queue.depth,
            queue.leased or unacknowledged(queue),
        )
        for queue, published, delivered, pushed, settled, redelivered, acked in rows
    ]


def unacknowledged(queue: Queue) -> int:
    """What readers of a stream have not acknowledged."""
    return sum(consumer.unacked for consumer in queue.consumers or ()) if queue.recorder is not None else 0


def held_messages(queue: Queue) -> int:
    """All messages of a queue: that wait, are taken, or are not due yet."""
    return queue.depth + queue.leased + queue.scheduled + queue.backing_off + queue.dlx


def message_stats(values: tuple[int, ...], series: SampleSeries, range: SampleRange | None = None) -> dict[str, Any]:
    """Counters with their rates in RabbitMQ's words; receiving over HTTP or in process is a get."""
    stats: dict[str, Any] = {}
    for index, name in enumerate(STATS):
        stats[name] = values[index]
        details = series.details(index, range)
        # What a deleted queue took out of a sum did not happen.
        stats[f"{name}_details"] = {**details, "rate": max(0.0, details["rate"])}
    return stats


def _rate(amount: int, time_ms: int) -> float:
    """So much in a second."""
    return round(1_000 * amount / time_ms, 3) if time_ms > 0 else 0.0


QUEUES = ("queue_declared", "queue_created", "queue_deleted")


class NodeRates(Rates):
    """The history of a node: its shards are looked at one after the other, and added up."""

    def __init__(
        self, runtime: Runtime, churn: Callable[[], dict[str, int]], shards: Callable[[], Sequence[Rates]]
    ) -> None:
        """`runtime` is that of the definitions; `shards` gives the rates of those that the node has now."""
        super().__init__(runtime, churn)
        self._shards = shards
        self._told: dict[Rates, tuple[int, ...]] = {}
        self._churned: dict[str, int] = dict.fromkeys(QUEUES, 0)

    async def sample(self) -> None:
        sums: dict[str, list[int]] = {}
        told: dict[Rates, tuple[int, ...]] = {}
        for rates in self._shards():
            with suppress(BrokerClosed, JournalFailed):  # it went while it was looked at
                await rates.sample()
                told[rates] = self._count(rates)
                for name, series in rates.vhosts.items():
                    sums[name] = list(map(add, sums.get(name, IDLE), series.last))
        self._told = told
        with self._runtime as core:
            self._finish(core, core.now_ms, sums)

    def _count(self, rates: Rates) -> tuple[int, ...]:
        """Add what has happened in a shard since it was looked at; its counters begin anew on each node."""
        now = (*rates.total.last[: len(STATS)], *rates.churned.last)
        before = self._told.get(rates, (0,) * len(now))
        gained = [each - earlier for each, earlier in zip(now, before, strict=True)]
        for index in range(len(STATS)):
            self._totals[index] += gained[index]
        for name, more in zip(QUEUES, gained[len(STATS) :], strict=True):
            self._churned[name] += more
        return now

    def churn(self, core: Broker) -> dict[str, int]:
        return {**self._churn(), **self._churned}
