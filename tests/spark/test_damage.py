"""Damaged files read by Spark: the message that its user sees names the file, the place, and what to do."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

import leveret
from tests.spark.history import small_history
from tests.spark.test_iceberg import filled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEADER_BYTES = 64  # of segments: what is damaged begins after it


def damage(path: Path) -> None:
    """Change a byte of the first record."""
    with path.open("r+b") as file:
        file.seek(HEADER_BYTES + 80)
        file.write(b"\xff")


def damaged_segment(folder: Path) -> tuple[Path, dict[str, str]]:
    """One of an archive: that of a running broker may end at any place."""
    small_history(folder.parent / "live")
    folder.mkdir()
    path = Path(shutil.copy(min((folder.parent / "live").glob("seg-*.log")), folder))
    damage(path)
    return path, {}


def damaged_stream(folder: Path) -> tuple[Path, dict[str, str]]:
    with leveret.open(folder) as broker:
        broker.stream("clicks").send_many([b"%d" % number for number in range(100)])
    path = min(folder.glob("streams/*/0/*.log"))
    damage(path)
    return path, {"stream": "clicks"}


def damaged_archive(folder: Path) -> tuple[Path, dict[str, str]]:
    filled(str(folder))
    path = sorted(folder.rglob("events/**/*.parquet"))[0]
    path.write_bytes(path.read_bytes()[:-4])
    return path, {}


@pytest.mark.parametrize("damaged", [damaged_segment, damaged_stream, damaged_archive])
def test_a_query_on_damaged_files_says_which_and_where(
    spark: SparkSession, tmp_path: Path, damaged: Callable[[Path], tuple[Path, dict[str, str]]]
) -> None:
    path, options = damaged(tmp_path / "data")
    with pytest.raises(PySparkException) as refused:
        spark.read.format("leveret").options(**options).load(str(tmp_path / "data")).count()
    assert re.search(rf"{path}[^\n]* (at offset \d+|\([^\n]*\)): restore", str(refused.value))
