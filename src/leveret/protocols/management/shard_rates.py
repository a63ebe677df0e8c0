"""How fast things happen on a node of a cluster: in all its shards together, those too that others have by now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import add

from leveret.core.broker import Broker
from leveret.core.errors import BrokerClosed, JournalFailed
from leveret.protocols.management.rates import IDLE, STATS, Rates
from leveret.runtime.runtime import Runtime

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
        """Look at every queue of every shard once."""
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
        """What has come and gone on this node."""
        return {**self._churn(), **self._churned}
