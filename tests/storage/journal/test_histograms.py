"""What the journal counts of its syncs and commits."""

from pathlib import Path

import pytest

import leveret
from tests.storage.journal.world import World


def test_every_sync_is_timed_and_every_commit_measured(tmp_path: Path) -> None:
    with leveret.open(tmp_path) as broker:
        store = broker.runtime.store
        assert store is not None
        queue = broker.queue("q")
        broker.flush()
        commits, entries, syncs = sum(store.batch_entries.buckets), store.batch_entries.sum, store.syncs
        queue.send_many([b"x"] * 100)
        assert sum(store.batch_entries.buckets) == commits + 1
        assert store.batch_entries.sum >= entries + 100
        assert sum(store.sync_us.buckets) == store.syncs > syncs


@pytest.mark.parametrize("threaded", [False, True])
def test_a_commit_is_timed_from_when_the_first_caller_asked_for_it(tmp_path: Path, threaded: bool) -> None:
    world = World(tmp_path, threaded=threaded)
    for number in range(1, 6):
        world.durably(b"message")
        assert sum(world.commit.commit_us.buckets) == number
    world.commit.flush()  # of nothing
    assert sum(world.commit.commit_us.buckets) == number
    assert not getattr(world.commit, "_asked_us", {})
    world.close()


def test_a_commit_of_nothing_is_none(tmp_path: Path) -> None:
    with leveret.open(tmp_path, sync="never") as broker:
        store = broker.runtime.store
        assert store is not None
        broker.queue("q").send(b"x")
        broker.flush()  # syncs by a frame without entries
        assert store.batch_entries.buckets[0] == 0
        assert sum(store.sync_us.buckets) == store.syncs
