"""What the journal counts of its syncs and commits."""

from pathlib import Path

import pytest

import leveret


@pytest.mark.parametrize("sync", ["always", "never"])
def test_every_sync_is_timed_and_every_commit_measured(tmp_path: Path, sync: str) -> None:
    with leveret.open(tmp_path, sync=sync) as broker:
        store = broker.guard.store
        assert store is not None
        queue = broker.queue("q")
        broker.flush()
        commits, entries, syncs = sum(store.frame_entries.buckets), store.frame_entries.sum, store.syncs
        queue.send_many([b"x"] * 100)
        broker.flush()
        assert sum(store.frame_entries.buckets) == commits + 1
        assert store.frame_entries.sum >= entries + 100
        assert sum(store.sync_us.buckets) == store.syncs
        assert (store.syncs > syncs) == (sync == "always")
