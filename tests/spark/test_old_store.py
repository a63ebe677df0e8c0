"""Segments of both encrypted formats, as the pipeline reads them: in a data directory, and in an archive."""

from pathlib import Path

import pytest

import leveret
from leveret.core.errors import WrongKey
from leveret.spark.scan import JournalScan
from tests.storage.journal.old_store import KEY, OPTIONS, ORDERS, key_file, unpacked


def published(scan: JournalScan) -> list[str]:
    """The bodies of all messages that a scan finds, large ones left out."""
    rows = [row for piece in scan.slices() for batch in scan.batches(piece) for row in batch.to_pylist()]
    return [row["value"].decode() for row in rows if row["value"] is not None]


def test_segments_of_both_formats_are_read(tmp_path: Path) -> None:
    place, keys = unpacked(tmp_path / "store"), key_file(tmp_path / "keys", KEY)
    archive = tmp_path / "archive"
    scan = JournalScan((str(place),), "messages", keys=(keys, None))
    first = [f"order {number} " + "x" * 200 for number in range(30)]
    before = published(scan)
    assert before == [*first, ORDERS[-1]]
    with leveret.open(place, encryption_key_file=keys, archive_dir=str(archive), **OPTIONS) as broker:
        broker.queue("orders").send_many([f"new {number}" for number in range(3)])
        assert published(scan) == [*before, "new 0", "new 1", "new 2"]
        broker.queue("orders").purge()
        store = broker.runtime.store
        assert store is not None
        broker.runtime.flush()
        while store.compact():
            pass
    assert sorted(path.name for path in archive.glob("seg-*.log"))
    both = JournalScan((str(archive), str(place)), "messages", keys=(keys, None), moved=False)
    assert published(both) == [*before, "new 0", "new 1", "new 2"]


def test_a_key_that_is_missing_is_named(tmp_path: Path) -> None:
    place = unpacked(tmp_path / "store")
    with pytest.raises(WrongKey, match="needs the key with id"):
        JournalScan((str(place),), "messages", keys=(key_file(tmp_path / "keys", bytes(32)), None)).slices()
