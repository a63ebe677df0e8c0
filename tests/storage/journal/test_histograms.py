"""What the journal counts of its syncs and commits."""

from pathlib import Path

import leveret


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


def test_a_commit_of_nothing_is_none(tmp_path: Path) -> None:
    with leveret.open(tmp_path, sync="never") as broker:
        store = broker.runtime.store
        assert store is not None
        broker.queue("q").send(b"x")
        broker.flush()  # syncs by a frame without entries
        assert store.batch_entries.buckets[0] == 0
        assert sum(store.sync_us.buckets) == store.syncs
