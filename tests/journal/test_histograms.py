"""What the journal counts of its syncs and commits."""

from pathlib import Path

import leveret


def test_every_sync_is_timed_and_every_commit_measured(tmp_path: Path) -> None:
    with leveret.open(tmp_path) as broker:
        store = broker.guard.store
        assert store is not None
        queue = broker.queue("q")
        before = sum(store.frame_entries.buckets)
        queue.send_many([b"x"] * 100)
        assert sum(store.sync_us.buckets) == store.syncs > 0
        assert sum(store.frame_entries.buckets) == before + 1
        assert store.frame_entries.buckets[7] == 1  # 64 to 127 entries


def test_without_syncs_none_is_timed(tmp_path: Path) -> None:
    with leveret.open(tmp_path, sync="never") as broker:
        store = broker.guard.store
        assert store is not None
        broker.queue("q").send(b"x")
        broker.flush()
        assert sum(store.sync_us.buckets) == 0
        assert store.frame_entries.sum > 0
