"""The archive job: from segments to Parquet, each row once, whatever happens in between."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

import leveret
from leveret.core.errors import InvalidArgument, PreconditionFailed
from leveret.spark import archive as jobs
from leveret.spark import compaction
from leveret.spark.archive import Archive, archive, opened
from leveret.spark.archive_state import ArchivedJournal, ArchiveState
from leveret.spark.iceberg import DirectoryCatalog, IcebergArchive
from leveret.spark.segments import open_segment, segment_files
from leveret.spark.tables import read_table
from tests.spark.history import rows_of
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY_MS = 86_400_000


def work(data: Path, handed: Path, rounds: int) -> None:
    """Let messages come and go until some old segments were handed over."""
    before = len(list(handed.glob("seg-*.log")))
    with leveret.open(data, sync="never", archive_dir=str(handed), segment_bytes=4096) as broker:
        orders, invoices = broker.queue("orders"), broker.queue("in/voices")
        for number in range(rounds):
            orders.send(bytes(500), headers={"number": number})
            orders.receive()[0].ack()
            if number == 0:
                invoices.send(b"invoice")
        wait_until(lambda: len(list(handed.glob("seg-*.log"))) >= before + 2)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def counted(rows: list[dict[str, Any]], *columns: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row[column] for column in columns) for row in rows)


def archived_with(salt: int) -> ArchiveState:
    """The state of an archive that has the first segment, with this salt."""
    return ArchiveState({0: ArchivedJournal(first=1, last=1, salt=salt)})


class Killed(Exception):
    """What a test lets happen instead of a kill."""


def place(number: int) -> int:
    """The place of a message among all: its number without the gaps that a broker leaves when it is opened."""
    return number % (1 << 24)


def test_every_row_of_sealed_segments_is_archived_once_even_if_runs_are_killed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, handed, out = tmp_path / "data", tmp_path / "handed", tmp_path / "out"
    job = Archive(str(out), (str(data), str(handed)), remove_segments=True)

    def killed(*arguments: object) -> NoReturn:
        raise Killed

    write = DirectoryCatalog.write

    def killed_between(catalog: DirectoryCatalog, name: str, version: int, metadata: Any) -> str:
        """Be killed after messages are committed, and before events are."""
        return write(catalog, name, version, metadata) if (name, version) != ("events", 2) else killed()

    work(data, handed, 30)
    with monkeypatch.context() as patched:
        patched.setattr(DirectoryCatalog, "write", killed_between)
        with pytest.raises(Killed):
            archive(spark, job, now_ms())
    assert rows_of(out) == []
    assert len(rows_of(out, table="messages")) >= 20
    assert len(list(handed.glob("seg-*.log"))) >= 2

    first = archive(spark, job, now_ms())
    assert first.segments >= 3
    assert first.removed_segments >= 1
    assert not list(handed.glob("seg-*"))

    work(data, handed, 30)
    with monkeypatch.context() as patched:
        patched.setattr(jobs, "_remove_segments", killed)
        with pytest.raises(Killed):
            archive(spark, job, now_ms())
    last = archive(spark, job, now_ms())
    assert (last.segments, last.missing_segments) == (0, 0)
    assert last.removed_segments >= 1

    # What is archived and what is not yet are together the whole history, without a row twice.
    whole = [row["seq"] for row in rows_of(data, archive=str(out)) if row["event"] == "published"]
    assert sorted(map(place, whole)) == list(range(1, 63))
    found = rows_of(data, archive=str(out), table="messages")
    assert sorted(place(row["offset"]) for row in found) == list(range(1, 63))
    assert {row["queue"] for row in found} == {"orders", "in/voices"}
    assert {row["queue"] for row in rows_of(data, archive=str(out), queue="in/voices")} == {"in/voices", None}
    told = {row["queue"] for row in rows_of(out) if row["event"] not in ("defined", "started", "counted")}
    assert told == {"orders", "in/voices"}


def test_small_files_are_put_together_and_old_days_go(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, handed, out = tmp_path / "data", tmp_path / "handed", tmp_path / "out"
    job = Archive(str(out), (str(handed),), archived_bytes=1)
    work(data, handed, 15)
    monkeypatch.setattr(compaction, "SMALL_FILES_MIN", 100)
    loose = archive(spark, job, now_ms())
    assert loose.generation == 1 + loose.segments >= 3
    before = counted(rows_of(out), "event", "queue", "seq", "at")
    monkeypatch.setattr(compaction, "SMALL_FILES_MIN", 2)
    dense = archive(spark, job, now_ms())
    assert dense.compacted_files >= 4
    assert dense.files < loose.files
    assert counted(rows_of(out), "event", "queue", "seq", "at") == before
    assert read_table(spark, "messages", path=str(out), queue="orders").count() == loose.messages - 1

    expired = archive(spark, job, now_ms() + 16 * DAY_MS)
    assert expired.files == 0
    assert not list(out.rglob("*.parquet"))
    assert IcebergArchive(str(out)).state("events").journal(0).last > 0


def test_messages_whose_segment_was_gone_before_the_archive_began_are_archived_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    data, handed, out = tmp_path / "data", tmp_path / "handed", tmp_path / "out"
    work(data, handed, 30)
    shutil.rmtree(handed)
    job = Archive(str(out), (str(data), str(handed)), compact=False)
    for invoices in ({2, 33}, {2, 33, 64}):
        work(data, handed, 30)
        archive(spark, job, now_ms())
        found = rows_of(out, table="messages", queue="in/voices")
        assert Counter(place(row["offset"]) for row in found) == Counter(invoices)


def test_the_journal_of_another_broker_is_refused(tmp_path: Path) -> None:
    work(tmp_path / "data", tmp_path / "handed", 30)
    source = (str(tmp_path / "handed"),)
    salt = open_segment(segment_files(*source)[0]).header.salt
    assert len(jobs._sealed(source, archived_with(salt))) >= 2
    with pytest.raises(PreconditionFailed, match="another broker"):
        jobs._sealed(source, archived_with(salt + 1))
    with opened(str(tmp_path)) as tables:
        tables.commit(tables.table("events"), state=archived_with(salt + 1))
    with pytest.raises(PreconditionFailed, match="another broker"):
        rows_of(tmp_path / "handed", archive=str(tmp_path))


@pytest.mark.parametrize("wrong", [{"sources": ()}, {"retention_days": 0}])
def test_jobs_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        Archive(**({"directory": "out", "sources": ("data",)} | wrong))
