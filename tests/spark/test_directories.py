"""What paths and URIs name: one place for Python and Spark, or an error that says what to do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from leveret.core.errors import InvalidArgument, PreconditionFailed
from leveret.spark import writing
from leveret.spark.archive import Archive, archive
from leveret.spark.archive_state import is_archive
from leveret.spark.directories import directory
from leveret.spark.iceberg import IcebergArchive
from leveret.spark.report import job as reports
from leveret.spark.source import LeveretSource
from leveret.spark.tables import read_table
from tests.spark.history import rows_of
from tests.spark.test_archive import now_ms, work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("/data", "/data"),
        ("/data/../a:b", "/a:b"),
        ("file:///data/a%20b", "/data/a b"),
        ("file:/data", "/data"),
        ("FILE://localhost/data/a?b#c", "/data/a?b#c"),
    ],
)
def test_a_path_and_a_uri_name_the_same_directory(place: str, path: str) -> None:
    assert directory("path", place) == path
    assert directory("path", path) == path


def test_a_relative_path_is_one_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert directory("path", "data") == str(tmp_path / "data")
    assert directory("path", "a:b") == str(tmp_path / "a:b")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("s3a://bucket/archive", "s3a is not supported, only directories are; mount it"),
        ("hdfs:/archive", "hdfs is not supported"),
        ("file://server/archive", "'server' is another machine; mount its directory"),
        ("file:archive", "with the whole path"),
        ("postgresql://leveret:secret@db/leveret", "archive it with `leveret pipeline archive --store URL`"),
    ],
)
def test_what_is_no_directory_is_refused_with_what_to_do(place: str, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words) as refused:
        directory("--out", place)
    assert str(refused.value).startswith("--out ")
    assert "secret" not in str(refused.value)


def test_an_archive_by_its_uri_has_every_row_before_segments_go(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    handed, out = tmp_path / "handed over", tmp_path / "out [1]"
    work(tmp_path / "data", handed, 30)
    published = {row["seq"] for row in rows_of(handed) if row["event"] == "published"}
    monkeypatch.setattr("leveret.spark.compaction.SMALL_FILES_MIN", 1)
    job = Archive(f"file://{out}", (handed.as_uri(),), remove_segments=True)
    done = archive(spark, job, now_ms())
    assert done.removed_segments == done.segments >= 2
    assert done.compacted_files
    assert is_archive(str(out))
    assert sorted(os.listdir(tmp_path)) == ["data", "handed over", "out [1]"]
    assert {row["seq"] for row in rows_of(out) if row["event"] == "published"} == published
    found = read_table(spark, "events", path=f"file://{out}").where("event = 'published'")
    assert found.count() == len(published)
    assert LeveretSource({"path": f"file://{out}"}).scan().directories == (str(out),)


def test_rows_that_this_machine_does_not_see_are_not_archived_and_nothing_is_removed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed, out = tmp_path / "handed", tmp_path / "out"
    work(tmp_path / "data", handed, 30)
    before = sorted(handed.glob("seg-*.log"))
    here = IcebergArchive.described
    elsewhere = tmp_path / "elsewhere"

    def on_another_machine(tables: IcebergArchive, table: Any, names: list[str]) -> Any:
        """As if the tasks ran on a machine with a disk of its own."""
        for name in names:
            (elsewhere / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).rename(elsewhere / name)
        return here(tables, table, names)

    monkeypatch.setattr(IcebergArchive, "described", on_another_machine)
    with pytest.raises(PreconditionFailed, match=r"wrote [1-9]\d* rows .* sees 0 of them.* every machine"):
        archive(spark, Archive(str(out), (str(handed),), remove_segments=True), now_ms())
    assert rows_of(out) == rows_of(out, table="messages") == []
    assert list(elsewhere.rglob("*.parquet"))
    assert sorted(handed.glob("seg-*.log")) == before


def test_a_report_counts_the_rows_of_its_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = reports.kept(spark, tmp_path / "here")
    rows = spark.range(5).withColumn("twice", F.col("id") * 2)
    assert keep("numbers", rows).count() == 5
    assert keep("none", rows.where("id > 9")).count() == 0
    monkeypatch.setattr(writing, "uri_of", lambda path: f"file://{tmp_path}/elsewhere{path}")
    with pytest.raises(PreconditionFailed, match=r"wrote 5 rows .* 0 of them"):
        keep("more", rows)
