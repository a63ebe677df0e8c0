"""Whoever is told of definitions that a node does not have waits until it has looked, which it does once for many."""

import asyncio

import pytest

from leveret.cluster.catalog.catalog import ClusterCatalog
from leveret.cluster.catalog.log import LogEntry
from leveret.cluster.catalog.propagation import Propagation
from leveret.core.errors import Unreachable
from tests.cluster.coordination.memory_log import MemoryLog

MANY = 200


class CountingLog(MemoryLog):
    """A log that counts who reads it, and may not answer."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.is_away = False

    async def read(self, version: int, limit: int) -> list[LogEntry]:
        self.reads += 1
        if self.is_away:
            raise Unreachable("the network is down")
        return await super().read(version, limit)


@pytest.mark.parametrize("is_away", [False, True])
def test_many_who_ask_for_a_version_are_served_by_one_look(is_away: bool) -> None:
    async def scene() -> None:
        log = CountingLog()
        other = ClusterCatalog(log, "b", 1)
        await other.change(lambda core: core.declare_queue("/", "orders"))
        catalog = ClusterCatalog(log, "a", 1)
        propagation = Propagation(catalog, lambda request: [])
        told: list[bool] = []
        enough = asyncio.Event()

        def tell(is_known: bool) -> None:
            told.append(is_known)
            if len(told) == MANY:
                enough.set()

        log.reads, log.is_away = 0, is_away
        for _ in range(MANY):
            assert not propagation.knows(other.version, tell)
        await enough.wait()
        assert set(told) == {not is_away}
        assert log.reads <= 2
        assert propagation.knows(other.version, tell) is not is_away
        await propagation.close()
        assert len(told) == MANY

    asyncio.run(scene())
