"""Whoever wants to change the catalog is told what became of it, also when something breaks or it is closed."""

import asyncio

import pytest

from leveret.cluster.catalog import catalog as catalogs
from leveret.cluster.catalog.catalog import ClusterCatalog
from leveret.cluster.catalog.changes import DefinitionChange
from leveret.cluster.catalog.log import LogEntry, PostgresLog, Snapshot, packed
from leveret.core.errors import BrokerClosed, TooMany
from tests.cluster.coordination.memory_log import MemoryLog
from tests.waiting import PATIENCE_S


class StuckLog(MemoryLog):
    """A log that takes nothing and refuses nothing."""

    async def append(self, entry: LogEntry) -> bool:
        await asyncio.Event().wait()
        return False


class SmallLog(MemoryLog):
    """A log that takes little at once."""

    async def append(self, entry: LogEntry) -> bool:
        packed(entry.changes, 1_000)
        return await super().append(entry)


async def declared(catalog: ClusterCatalog, name: str) -> str:
    change = catalog.change(lambda core: core.declare_queue("/", name).name)
    found: str = await asyncio.wait_for(change, PATIENCE_S)
    return found


def test_a_change_that_breaks_does_not_keep_the_next_one_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogs, "BATCH_MAX", 1)

    async def main() -> None:
        catalog = ClusterCatalog(MemoryLog(), "a")

        def breaks(changes: list[DefinitionChange]) -> None:
            catalog.listeners.clear()
            raise ValueError("nobody thought of that")

        catalog.listeners.append(breaks)
        first, second = (asyncio.create_task(declared(catalog, name)) for name in ("one", "two"))
        with pytest.raises(ValueError, match="nobody thought"):
            await first
        assert await second == "two"
        await catalog.close()

    asyncio.run(main())


def test_a_change_that_is_too_large_is_refused_alone() -> None:
    async def main() -> None:
        catalog = ClusterCatalog(SmallLog(), "a")
        large = catalog.change(lambda core: [core.declare_queue("/", f"large {number}").id for number in range(20)])
        changes = [declared(catalog, "one"), large, declared(catalog, "two")]
        one, refusal, two = await asyncio.gather(*changes, return_exceptions=True)
        assert isinstance(refusal, TooMany)
        assert (one, two) == ("one", "two")
        assert set(catalog.replica.broker.topology.vhost("/").queues) == {"one", "two"}
        await catalog.close()

    asyncio.run(main())


def test_nobody_waits_for_a_catalog_that_was_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogs, "BATCH_MAX", 1)

    async def main() -> None:
        catalog = ClusterCatalog(StuckLog(), "a")
        changes = [asyncio.create_task(declared(catalog, name)) for name in ("one", "two")]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await catalog.close()
        for change in changes:
            with pytest.raises(BrokerClosed):
                await change

    asyncio.run(main())


def test_all_definitions_may_be_more_than_change_at_once(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret.cluster.catalog.log.ENTRY_BYTES_MAX", 1_000)
    monkeypatch.setattr(catalogs, "SNAPSHOT_VERSIONS", 5)

    async def main() -> Snapshot | None:
        log = PostgresLog(store_url)
        catalog = ClusterCatalog(log, "a")
        for number in range(5):
            await declared(catalog, f"{number}{'x' * 200}")
        found = await log.snapshot()
        await catalog.close()
        await log.close()
        return found

    found = asyncio.run(main())
    assert found is not None
    assert len(found.changes) == 5


def test_a_change_was_made_although_no_snapshot_could_be(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret.cluster.catalog.log.SNAPSHOT_BYTES_MAX", 1)
    monkeypatch.setattr(catalogs, "SNAPSHOT_VERSIONS", 1)

    async def main() -> None:
        log = PostgresLog(store_url)
        catalog = ClusterCatalog(log, "a")
        assert [await declared(catalog, name) for name in ("one", "two")] == ["one", "two"]
        assert [entry.version for entry in await log.read(1, 10)] == [1, 2]
        await catalog.close()
        await log.close()

    asyncio.run(main())
