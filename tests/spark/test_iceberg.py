"""Archives as tables of Iceberg, without Spark: commits, what is pruned, damage, object stores, and other readers."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from leveret.core.errors import (
    BlobStoreFailed,
    DamagedJournal,
    DataLocked,
    InvalidArgument,
    NotFound,
    PreconditionFailed,
    UnknownFormat,
)
from leveret.spark import compaction, layout
from leveret.spark.archive import opened
from leveret.spark.archive_files import archive_files
from leveret.spark.archive_state import PROPERTY, ArchivedJournal, ArchiveState, is_archive
from leveret.spark.directories import archive_place
from leveret.spark.events import EVENTS
from leveret.spark.iceberg import IcebergArchive
from leveret.spark.layout import FileWriter
from leveret.spark.parquet import FilesPartition, ParquetReader
from leveret.spark.scan import TABLES, JournalScan
from leveret.spark.segments import EntityNames, QueueName
from leveret.spark.source import LeveretSource
from tests.durability.s3 import Bucket, s3

MIDNIGHT = datetime(2026, 1, 2, tzinfo=UTC)
STATE = ArchiveState(
    {0: ArchivedJournal(1, 4, 99, 2, (3,)), 7: ArchivedJournal(2, 2, 5)},
    {"clicks": {"0": 5}},
    {7: EntityNames({7: QueueName("/", "orders")}, {3: "worker"})},
)


def events(queue: str, start: datetime, rows: int = 3, first: int = 0) -> pa.RecordBatch:
    """Events of one queue, one in each second from a time on."""
    facts: dict[str, list[Any]] = {name: [None] * rows for name in TABLES["events"]}
    facts["queue"] = [queue] * rows
    facts["seq"] = list(range(first, first + rows))
    facts["at"] = [start + timedelta(seconds=second) for second in range(rows)]
    schema = pa.schema([(name, column.arrow) for name, column in TABLES["events"].items()])
    return pa.RecordBatch.from_pydict(facts, schema)


def put(tables: IcebergArchive, *batches: pa.RecordBatch, state: ArchiveState | None = None) -> list[str]:
    """Write and commit rows as a task and the driver do; give the names of the files."""
    files = FileWriter(tables.files, "events", tables.schema("events")).write(batches)
    table = tables.table("events")
    tables.commit(table, tables.described(table, [name for name, _ in files]), state=state)
    return [name for name, _ in files]


def filled(place: str) -> IcebergArchive:
    """An archive with orders of two days and invoices of one."""
    with opened(place) as tables:
        put(tables, events("orders", MIDNIGHT - timedelta(hours=1)))
        put(tables, events("orders", MIDNIGHT), events("invoices", MIDNIGHT), state=STATE)
    return tables


@pytest.fixture
def tables(tmp_path: Path) -> IcebergArchive:
    return filled(str(tmp_path))


def rows_of(place: str | os.PathLike[str], **options: str) -> list[dict[str, Any]]:
    """All rows of an archive, read in this process."""
    reader = LeveretSource({"path": str(place), **options}).reader(StructType())
    assert isinstance(reader, ParquetReader)
    return [row for piece in reader.partitions() for batch in reader.read(piece) for row in batch.to_pylist()]


def names_read(place: Path, **options: str) -> list[str]:
    """The files that a reader plans to open."""
    reader = LeveretSource({"path": str(place), **options}).reader(StructType())
    assert isinstance(reader, ParquetReader)
    return [file.name for piece in reader.partitions() if isinstance(piece, FilesPartition) for file in piece.files]


def test_what_a_commit_says_of_the_journal_is_read_again(tables: IcebergArchive) -> None:
    assert tables.state("events") == STATE
    assert tables.state("messages") == ArchiveState()


def test_rows_of_a_day_lie_together_by_queue_and_time(tmp_path: Path) -> None:
    with opened(str(tmp_path)) as tables:
        mixed = [events(queue, MIDNIGHT - timedelta(seconds=2), 4) for queue in ("b", "a", "c")]
        names = put(tables, *mixed)
    assert sorted(name.split("/")[2] for name in names) == ["at_day=2026-01-01", "at_day=2026-01-02"]
    rows = pq.read_table(tmp_path / next(name for name in names if "01-01" in name)).to_pylist()
    assert [(row["queue"], row["seq"]) for row in rows] == [(queue, seq) for queue in "abc" for seq in (0, 1)]


def test_ten_thousand_queues_are_a_file_for_each_day(tmp_path: Path) -> None:
    with opened(str(tmp_path)) as tables:
        one = events("q", MIDNIGHT, 10_000)
        names = pa.array([f"queue-{number:05}" for number in range(10_000)])
        (name,) = put(tables, one.set_column(one.schema.get_field_index("queue"), "queue", names))
    assert len(list((tmp_path / "events" / "data").rglob("*"))) == 2
    assert [row["seq"] for row in rows_of(tmp_path, queue="queue-00777")] == [777]
    assert pq.read_metadata(tmp_path / name).num_rows == 10_000


def test_a_reader_leaves_out_row_groups_and_reads_their_rest_in_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "GROUP_ROWS", 3)
    with opened(str(tmp_path)) as tables:
        (name,) = put(tables, *(events(queue, MIDNIGHT) for queue in ("a", "b", "c")))
    reader = ParquetReader(JournalScan((str(tmp_path),), queues=frozenset("b"), slice_bytes=4))
    pieces = [file.groups for piece in reader.partitions() for file in piece.files]  # type: ignore[attr-defined]
    assert pieces == [(0,), (1,), (2,)]
    with pq.ParquetFile(tmp_path / name) as file:
        assert reader._groups(file.metadata, None) == [1]
        late = ParquetReader(JournalScan((str(tmp_path),), since_ms=int(MIDNIGHT.timestamp() * 1000) + 3000))
        assert late._groups(file.metadata, None) == []
    assert [row["queue"] for piece in reader.partitions() for b in reader.read(piece) for row in b.to_pylist()] == [
        "b"
    ] * 3
    assert list(reader.read(InputPartition(None))) == []


def test_files_that_no_commit_names_are_neither_read_nor_kept(tables: IcebergArchive, tmp_path: Path) -> None:
    ((ghost, _),) = FileWriter(tables.files, "events", tables.schema("events")).write([events("ghosts", MIDNIGHT)])
    assert {row["queue"] for row in rows_of(tmp_path)} == {"orders", "invoices"}
    now_ms = int((tmp_path / ghost).stat().st_mtime * 1000)
    tables.expire(now_ms + 3_600_000)
    assert (tmp_path / ghost).exists(), "a job may be about to commit it"
    tables.expire(now_ms + 25 * 3_600_000)
    assert not (tmp_path / ghost).exists()
    assert len(rows_of(tmp_path)) == 9
    assert tables.state("events") == STATE


def test_snapshots_stay_for_readers_and_go_a_day_later(tables: IcebergArchive, tmp_path: Path) -> None:
    table = tables.table("events")
    gone = [task.file for task in table.scan().plan_files()]
    tables.commit(table, removed=gone)
    assert rows_of(tmp_path) == []
    before = StaticTable.from_metadata(str(tmp_path / "events/metadata/v3.metadata.json"))
    tables.expire(table.metadata.last_updated_ms + 1000)
    assert before.scan().to_arrow().num_rows == 9
    tables.expire(table.metadata.last_updated_ms + 25 * 3_600_000)
    assert not list(tmp_path.rglob("*.parquet"))
    assert len(tables.table("events").snapshots()) == 1


def test_of_two_jobs_at_the_same_time_one_takes_nothing_in(tables: IcebergArchive, tmp_path: Path) -> None:
    late = tables.table("events")
    files = FileWriter(tables.files, "events", tables.schema("events")).write([events("late", MIDNIGHT)])
    put(tables, events("early", MIDNIGHT))
    with pytest.raises(PreconditionFailed, match="another job changed the table meanwhile; this one did not"):
        tables.commit(late, tables.described(late, [name for name, _ in files]), state=STATE)
    assert "late" not in {row["queue"] for row in rows_of(tmp_path)}


def test_one_process_at_a_time_changes_an_archive(tmp_path: Path) -> None:
    with opened(str(tmp_path)), pytest.raises(DataLocked), opened(str(tmp_path)):
        pass


def test_a_new_column_is_null_in_rows_of_before(tables: IcebergArchive, tmp_path: Path) -> None:
    wider = {**EVENTS, "colour": EVENTS["reason"]}
    tables.made("events", wider)
    assert tables.table("events").schema().column_names[-1] == "colour"
    batch = events("orders", MIDNIGHT, 1, first=90)
    put(tables, batch.append_column("colour", pa.array(["red"])))
    put(tables, events("orders", MIDNIGHT, 1, first=91))  # written by a version that does not know it
    table = StaticTable.from_metadata(str(tmp_path / "events"))
    colours = table.scan(selected_fields=("seq", "colour")).to_arrow().to_pylist()
    assert {row["seq"] for row in colours if row["colour"] == "red"} == {90}
    assert len(colours) == 11
    assert tables.made("events", EVENTS).schema().column_names[-1] == "colour"


def test_a_column_that_old_files_lack_is_read_as_null(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(str(tmp_path))
    monkeypatch.setitem(TABLES["events"], "colour", EVENTS["reason"])
    assert {row["colour"] for row in rows_of(tmp_path)} == {None}


def test_damage_and_newer_formats_are_named(tables: IcebergArchive, tmp_path: Path) -> None:
    table = tables.table("events")
    facts = json.loads(table.properties[PROPERTY])
    with table.transaction() as change:
        change.set_properties({PROPERTY: json.dumps(facts | {"format": 4})})
    with pytest.raises(UnknownFormat, match="format 4"):
        tables.state("events")
    with tables.table("events").transaction() as change:
        change.set_properties({PROPERTY: json.dumps(facts)})
    names = tmp_path / facts["names"]
    names.write_bytes(names.read_bytes()[:-4])
    with pytest.raises(DamagedJournal, match=rf"{facts['names']} is damaged at offset \d+: restore"):
        tables.state("events")
    newest = sorted((tmp_path / "events/metadata").glob("v*.json"))[-1]
    newest.write_bytes(newest.read_bytes()[:-40])
    with pytest.raises(DamagedJournal, match=rf"{newest.name} is damaged .*restore"):
        rows_of(tmp_path)


def test_a_data_file_that_is_cut_or_gone_is_named(tables: IcebergArchive, tmp_path: Path) -> None:
    path = tmp_path / names_read(tmp_path)[0]
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(DamagedJournal, match=rf"{path.name} is damaged .*restore"):
        rows_of(tmp_path)
    path.unlink()
    with pytest.raises(DamagedJournal, match=rf"{path.name} is damaged .*restore"):
        rows_of(tmp_path)


def test_a_directory_without_tables_is_no_archive(tmp_path: Path) -> None:
    assert not is_archive(str(tmp_path))
    with pytest.raises(NotFound, match="leveret pipeline archive"):
        IcebergArchive(str(tmp_path)).table("events")


def test_an_archive_that_was_moved_says_so(tables: IcebergArchive, tmp_path: Path) -> None:
    shutil.copytree(tmp_path / "events", tmp_path / "copy" / "events")
    with pytest.raises(NotFound, match="move the archive back"):
        rows_of(tmp_path / "copy")


def test_days_and_queues_prune_files_and_rows(tables: IcebergArchive, tmp_path: Path) -> None:
    assert {row["queue"] for row in rows_of(tmp_path, queue="orders")} == {"orders"}
    assert rows_of(tmp_path, queue="none") == []
    late = rows_of(tmp_path, since="2026-01-02T00:00:01", columns="seq,at")
    assert [set(row) for row in late] == [{"seq", "at"}] * 4
    assert [row["seq"] for row in rows_of(tmp_path, until="2026-01-01T23:00:02")] == [0, 1]
    assert len(names_read(tmp_path, until="2026-01-01T23:00:02")) == 1
    assert names_read(tmp_path, queue="invoices") == names_read(tmp_path, since="2026-01-02")


def extended(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """DuckDB with the extensions that read Iceberg, which are on PyPI, too."""
    for name in ("avro", "iceberg"):
        place = Path(str(import_module(f"duckdb_extension_{name}").__file__)).parent / "extensions"
        connection.load_extension(str(place / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"))
    return connection


def test_duckdb_and_pyiceberg_read_an_archive_without_leveret(tables: IcebergArchive, tmp_path: Path) -> None:
    with extended(duckdb.connect()) as connection:
        found = connection.sql(
            f"select queue, count(*), epoch_ms(max(\"at\")) from iceberg_scan('{tmp_path}/events') "
            "where \"at\" >= timestamptz '2026-01-02 00:00:00+00' group by queue order by queue"
        ).fetchall()
    end = (MIDNIGHT + timedelta(seconds=2)).timestamp() * 1000
    assert found == [("invoices", 3, end), ("orders", 3, end)]
    table = StaticTable.from_metadata(str(tmp_path / "events"))
    assert str(table.spec().fields[0].transform) == "day"
    assert table.scan(row_filter="queue = 'orders'").to_arrow().num_rows == 6


def test_small_files_are_chosen_by_day_and_size(tables: IcebergArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [task.file for task in tables.table("events").scan().plan_files()]
    monkeypatch.setattr(compaction, "SMALL_FILES_MIN", 2)
    assert list(compaction.small(iter(files))) == []
    put(tables, events("orders", MIDNIGHT))
    files = [task.file for task in tables.table("events").scan().plan_files()]
    (chosen,) = compaction.small(iter(files))
    assert len(chosen) == 2
    monkeypatch.setattr(compaction, "TIERS", (min(file.file_size_in_bytes for file in chosen) + 1, 1 << 20))
    assert list(compaction.small(iter(files))) == [], "they are not of one size"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    archive_files.cache_clear()
    with s3() as server:
        for name, value in server.environ.items():
            monkeypatch.setenv(name, value)
        yield server
    archive_files.cache_clear()


def test_an_archive_in_an_object_store_is_written_and_read(bucket: Bucket) -> None:
    tables = filled("s3://archives/leveret")
    assert tables.state("events") == STATE
    assert is_archive("s3://archives/leveret")
    assert [path for path in bucket.objects if path.startswith("/archives/leveret/events/metadata/v3")]
    rows = rows_of("s3://archives/leveret", queue="orders", since="2026-01-02")
    assert [row["seq"] for row in rows] == [0, 1, 2]
    late = tables.table("events")
    put(tables, events("early", MIDNIGHT))
    with pytest.raises(PreconditionFailed, match="another job"):
        tables.commit(late, state=STATE)
    with pytest.raises(FileExistsError):
        tables.files.create("events/metadata/v1.metadata.json", b"{}")
    tables.expire(late.metadata.last_updated_ms + 1000 * 86_400_000)
    assert len(rows_of("s3://archives/leveret")) == 12


def test_errors_of_an_object_store_name_the_file(bucket: Bucket) -> None:
    files = archive_files("s3://archives/leveret")
    with pytest.raises(FileNotFoundError):
        files.open("nothing")
    files.delete("nothing")
    bucket.broken = True
    with pytest.raises(BlobStoreFailed, match="did not write s3://archives/leveret/some"):
        files.create("some", b"")


@pytest.mark.parametrize("place", ["s3://key:secret@bucket/a", "s3://bucket/a?token=secret", "gs:///a"])
def test_credentials_do_not_belong_into_a_uri(place: str) -> None:
    with pytest.raises(InvalidArgument, match="give credentials by the variables") as refused:
        archive_place("--out", place)
    assert "secret" not in str(refused.value)
    assert archive_place("--out", "abfs://files@account/a/") == "abfs://files@account/a"


COMMITS = """
import sys
from datetime import timedelta
from leveret.spark.archive import opened
from leveret.spark.archive_state import ArchiveState
from tests.spark.test_iceberg import MIDNIGHT, events, put

with opened(sys.argv[1]) as tables:
    done = tables.state("events").streams.get("done", {}).get("0", 0)
    while done < int(sys.argv[2]):
        state = ArchiveState(streams={"done": {"0": done + 1}})
        put(tables, *(events(f"queue-{done}", MIDNIGHT + timedelta(days=day)) for day in range(2)), state=state)
        done += 1
        print(done, flush=True)
"""


def test_jobs_that_are_killed_at_any_moment_leave_whole_commits(tmp_path: Path) -> None:
    rng, goal = random.Random(1), 8
    for round_ in range(4):
        command = [sys.executable, "-c", COMMITS, str(tmp_path), str(goal)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            told = 0
            for line in child.stdout:
                told = int(line)
                if round_ < 3 and told >= 2 * (round_ + 1):
                    # It is anywhere in the commit after that.
                    with pytest.raises(subprocess.TimeoutExpired):
                        child.wait(rng.random() / 50)
                    child.send_signal(signal.SIGKILL)
                    break
        done = IcebergArchive(str(tmp_path)).state("events").streams["done"]["0"]
        assert told <= done <= told + 1
        assert len(rows_of(tmp_path)) == 6 * done
    assert done == goal
    assert sorted({row["queue"] for row in rows_of(tmp_path)}) == sorted(f"queue-{number}" for number in range(goal))


def test_a_file_of_an_object_store_is_read_by_ranges(bucket: Bucket) -> None:
    files = archive_files("s3://archives/leveret")
    files.replace("numbers", bytes(range(100)))
    with files.open("numbers") as file:
        assert file.seek(-10, io.SEEK_END) == 90
        assert file.read() == bytes(range(90, 100))
        file.seek(5)
        assert file.read(3) == bytes((5, 6, 7))


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


def former(place: Path) -> None:
    """An archive of the layout before Iceberg, with two files that count and one that does not."""
    files = []
    for number, queue in enumerate(("orders", "invoices", "ghosts")):
        path = place / f"events/generation=1/date=2026-01-02/folder={queue}/part-{number}.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.Table.from_batches([events(queue, MIDNIGHT)]), path)
        files.append({"path": path.relative_to(place).as_posix(), "table": "events"})
    facts = {
        "format": 2,
        "files": files[:2],
        "journals": {"0": {"first": 1, "last": 4, "salt": 99, "moved_until": 2, "missing": [3]}},
        "streams": STATE.streams,
        "names": {"7": {"queues": {"7": ["/", "orders"]}, "consumers": {"3": "worker"}}},
    }
    (place / "manifest-00000000000000000001.json").write_text(json.dumps(facts))


def test_an_archive_of_the_former_layout_is_converted_without_writing_rows(tmp_path: Path) -> None:
    former(tmp_path)
    for job in (lambda: rows_of(tmp_path), lambda: opened(str(tmp_path)).__enter__()):
        with pytest.raises(UnknownFormat, match="leveret pipeline archive --convert --out"):
            job()
    before = sorted(tmp_path.rglob("*.parquet"))
    with opened(str(tmp_path), convert=True) as tables:
        assert tables.state("events") == replace(STATE, journals={0: STATE.journals[0]})
    assert sorted(tmp_path.rglob("*.parquet")) == before
    assert {(row["queue"], row["seq"]) for row in rows_of(tmp_path)} == {
        (queue, seq) for queue in ("orders", "invoices") for seq in range(3)
    }
    assert len(names_read(tmp_path, queue="orders")) == 1
    with extended(duckdb.connect()) as connection:
        assert connection.sql(f"select count(queue) from iceberg_scan('{tmp_path}/events')").fetchone() == (6,)
    with opened(str(tmp_path), convert=True) as tables:
        assert tables.count() == 2


def test_a_conversion_that_was_killed_is_done_again(tmp_path: Path) -> None:
    former(tmp_path)
    lists = list(tmp_path.glob("manifest-*"))
    kept = lists[0].read_bytes()
    with opened(str(tmp_path), convert=True):
        pass
    lists[0].write_bytes(kept)  # it was killed before the old list went
    with opened(str(tmp_path), convert=True):
        assert len(rows_of(tmp_path)) == 6
    lists[0].write_bytes(kept[:-30])
    with pytest.raises(DamagedJournal, match=r"manifest-0\d+1.json is damaged"), opened(str(tmp_path), convert=True):
        pass
