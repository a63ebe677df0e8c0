"""The manifest of a Parquet archive, and reading such an archive without Spark."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import EqualTo, InputPartition
from pyspark.sql.types import StructType

from leveret.core.errors import DamagedJournal, DataLocked, NotFound, UnknownFormat
from leveret.spark import manifest as manifests
from leveret.spark.manifest import ArchivedJournal, File, Manifest, manifest_name, read_manifest
from leveret.spark.parquet import ParquetReader
from leveret.spark.scan import TABLES
from leveret.spark.segments import EntityNames, QueueName
from leveret.spark.source import LeveretSource, PushdownParquetReader

MIDNIGHT = datetime(2026, 1, 2, tzinfo=UTC)


def parquet_file(archive: Path, queue: str, start: datetime, rows: int = 3, generation: int = 1) -> File:
    """A file of events of one queue, one in each second from a time on."""
    facts: dict[str, list[Any]] = {name: [None] * rows for name in TABLES["events"]}
    facts["queue"] = [queue] * rows
    facts["seq"] = list(range(rows))
    facts["at"] = [start + timedelta(seconds=second) for second in range(rows)]
    schema = pa.schema([(name, column.arrow) for name, column in TABLES["events"].items()])
    date = start.date().isoformat()
    path = archive / f"events/generation={generation}/date={date}/folder={queue}/part-0.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(facts, schema), path)
    name = path.relative_to(archive).as_posix()
    return File(name, "events", date, queue, rows, path.stat().st_size, queue, queue)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive with three files: orders of two days, invoices of one."""
    files = (
        parquet_file(tmp_path, "orders", MIDNIGHT - timedelta(hours=1)),
        parquet_file(tmp_path, "orders", MIDNIGHT),
        parquet_file(tmp_path, "invoices", MIDNIGHT),
    )
    names = EntityNames({7: QueueName("/", "orders")}, {3: "worker"})
    journals = {0: ArchivedJournal(1, 4, 99, 2, (3,)), 7: ArchivedJournal(2, 2, 5)}
    manifests.commit(str(tmp_path), Manifest(1, files, journals, {"clicks": {"0": 5}}, {7: names}))
    return tmp_path


def rows_of(archive: Path, **options: str) -> list[dict[str, Any]]:
    """All rows of an archive, read in this process."""
    reader = LeveretSource({"path": str(archive), **options}).reader(StructType())
    assert isinstance(reader, ParquetReader)
    return [row for piece in reader.partitions() for batch in reader.read(piece) for row in batch.to_pylist()]


def test_a_manifest_is_read_as_it_was_written(archive: Path) -> None:
    found = read_manifest(str(archive))
    assert found.journals == {0: ArchivedJournal(1, 4, 99, 2, (3,)), 7: ArchivedJournal(2, 2, 5)}
    assert found.streams == {"clicks": {"0": 5}}
    assert found.names == {7: EntityNames({7: QueueName("/", "orders")}, {3: "worker"})}
    assert [(file.date, file.folder, file.rows) for file in found.of("events")] == [
        ("2026-01-01", "orders", 3),
        ("2026-01-02", "orders", 3),
        ("2026-01-02", "invoices", 3),
    ]


def test_files_that_the_manifest_does_not_name_are_neither_read_nor_kept(archive: Path) -> None:
    parquet_file(archive, "ghosts", MIDNIGHT)
    parquet_file(archive, "ghosts", MIDNIGHT, generation=2)
    assert {row["queue"] for row in rows_of(archive)} == {"orders", "invoices"}
    with manifests.opened(str(archive)):
        pass
    assert not list(archive.rglob("*ghosts*/*.parquet"))
    assert len(rows_of(archive)) == 9


def test_the_newest_manifest_counts_and_older_ones_go(archive: Path) -> None:
    before = read_manifest(str(archive))
    manifests.commit(str(archive), replace(before, generation=2, files=before.files[:1]))
    assert [path.name for path in archive.glob("manifest-*")] == [manifest_name(2)]
    assert len(rows_of(archive)) == 3
    assert len(list(archive.rglob("*.parquet"))) == 1


def test_a_manifest_that_was_not_renamed_yet_does_not_count(archive: Path) -> None:
    (archive / (manifest_name(2) + ".tmp")).write_bytes(b"{")
    assert read_manifest(str(archive)).generation == 1


def test_one_process_at_a_time_changes_an_archive(archive: Path) -> None:
    with manifests.opened(str(archive)), pytest.raises(DataLocked), manifests.opened(str(archive)):
        pass


def test_damage_and_newer_formats_are_named(archive: Path) -> None:
    path = archive / manifest_name(1)
    facts = json.loads(path.read_bytes())
    path.write_text(json.dumps(facts | {"format": 3}))
    with pytest.raises(UnknownFormat, match="format 3"):
        rows_of(archive)
    path.write_text(json.dumps(facts | {"files": 5}))
    with pytest.raises(DamagedJournal, match=manifest_name(1)):
        rows_of(archive)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DamagedJournal, match=rf"{manifest_name(1)} is damaged at offset \d+: restore"):
        rows_of(archive)


def test_a_data_file_that_is_cut_or_gone_is_named(archive: Path) -> None:
    path = archive / read_manifest(str(archive)).files[0].path
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(DamagedJournal, match=rf"{path.name} is damaged .*restore"):
        rows_of(archive)
    path.unlink()
    with pytest.raises(DamagedJournal, match=rf"{path.name} is damaged .*restore"):
        rows_of(archive)


def test_a_directory_without_a_manifest_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="leveret pipeline archive"):
        read_manifest(str(tmp_path))


def test_days_and_queues_prune_files_and_rows(archive: Path) -> None:
    assert {row["queue"] for row in rows_of(archive, queue="orders")} == {"orders"}
    assert rows_of(archive, queue="none") == []
    late = rows_of(archive, since="2026-01-02T00:00:01", columns="seq,at")
    assert [set(row) for row in late] == [{"seq", "at"}] * 4
    assert [row["seq"] for row in rows_of(archive, until="2026-01-01T23:00:02")] == [0, 1]


def test_files_are_pruned_by_day_and_queue_before_they_are_opened(archive: Path) -> None:
    reader = LeveretSource({"path": str(archive), "pushdown": "true"}).reader(StructType())
    assert isinstance(reader, PushdownParquetReader)
    assert len(list(reader.pushFilters([EqualTo(("queue",), "invoices")]))) == 1
    (piece,) = reader.partitions()
    assert [file.folder for file in piece.files] == ["invoices"]  # type: ignore[attr-defined]


def test_large_files_are_read_by_tasks_of_their_own(archive: Path) -> None:
    reader = LeveretSource({"path": str(archive)}).reader(StructType())
    assert isinstance(reader, ParquetReader)
    size = max(file.bytes for file in read_manifest(str(archive)).files)
    reader.scan = replace(reader.scan, slice_bytes=size)
    assert len(reader.partitions()) == 3
    assert list(reader.read(InputPartition(None))) == []


@pytest.mark.parametrize(
    ("journal", "segments", "expected"),
    [
        (ArchivedJournal(), [1, 2], ArchivedJournal(1, 2, 5)),
        (ArchivedJournal(), [3, 4], ArchivedJournal(3, 4, 5, moved_until=9)),
        (ArchivedJournal(1, 2, 4), [4, 5], ArchivedJournal(1, 5, 5, missing=(3,))),
        (ArchivedJournal(1, 5, 4, missing=(3,)), [3], ArchivedJournal(1, 5, 4)),
    ],
)
def test_the_journal_is_taken_in_as_far_as_it_is_there(
    journal: ArchivedJournal, segments: list[int], expected: ArchivedJournal
) -> None:
    assert all(map(journal.wants, segments))
    after = journal.with_segments(segments, 5, 9)
    assert after == expected
    assert all(map(after.has, segments))
    assert not after.has(expected.first - 1)
