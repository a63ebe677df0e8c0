"""A node that stops closes all of its shards, whatever their databases do."""

import asyncio
from pathlib import Path

import pytest

import leveret
from leveret.core.errors import JournalFailed
from leveret.storage.journal.files.store import FileStore
from tests.cluster.coordination.memory_log import MemoryLog
from tests.cluster.test_hosting import hosted


def test_a_node_that_stops_waits_for_a_database_once_and_not_for_each_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    close = FileStore.close

    def closed(store: FileStore) -> None:
        calls.append("close")
        close(store)

    monkeypatch.setattr(FileStore, "hurry", lambda store: calls.append("hurry"))
    monkeypatch.setattr(FileStore, "close", closed)

    async def scene() -> None:
        async with hosted(MemoryLog(), tmp_path) as (_, hosting):
            hosting._open_at = lambda shard, epoch: leveret.open(tmp_path / str(shard))
            for shard in range(3):
                assert await hosting.take_over(shard, 1)

    asyncio.run(scene())
    assert calls[:4] == ["hurry", "hurry", "hurry", "hurry"], "the fourth is the first one that is closed"
    assert calls.count("close") == 3


def test_shards_are_closed_although_one_of_them_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[FileStore] = []
    close = FileStore.close

    def fail_first(store: FileStore) -> None:
        close(store)
        closed.append(store)
        if len(closed) == 1:
            raise JournalFailed("its database is away")

    async def scene() -> None:
        async with hosted(MemoryLog(), tmp_path) as (_, hosting):
            hosting._open_at = lambda shard, epoch: leveret.open(tmp_path / str(shard))
            for shard in range(2):
                assert await hosting.take_over(shard, 1)
            monkeypatch.setattr(FileStore, "close", fail_first)
            with pytest.raises(JournalFailed, match="its database is away"):
                await hosting.stop()

    asyncio.run(scene())
    assert len(closed) == 2
