"""What users test their own jobs with: the columns of the real sources, batch by batch, without a server."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from leveret.core.errors import InvalidArgument
from leveret.spark.spark_api import ReadAllAvailable
from leveret.spark.testing import TABLES, MemoryReader, MemorySource, MemoryStreamReader, published

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
QUERY_S = 300


def refunds(orders: DataFrame) -> DataFrame:
    """A job of a user: the same for a table and a stream."""
    return orders.where("headers['kind'] = 'refund'").select(F.decode("value", "utf-8").alias("value"), "offset")


def test_a_job_is_tried_on_rows_as_a_table_and_as_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    orders = MemorySource(spark, "queue")
    orders.add({"value": "one", "headers": {"kind": "refund"}}, {"value": b"two", "enqueued_at": NOON})
    orders.add({"value": b"three", "headers": {"kind": "refund"}})
    found = refunds(orders.table())
    assert sorted(map(tuple, published(found.select("value"), queue="refunds"))) == [("one",), ("three",)]
    with pytest.raises(InvalidArgument, match="offset"):
        published(found, queue="refunds")

    def run() -> list[tuple[str, int]]:
        out = str(tmp_path / "out")
        writer = refunds(orders.stream()).writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.format("parquet").option("path", out).trigger(availableNow=True).start()
        assert query.awaitTermination(QUERY_S)
        return sorted((row.value, row.offset) for row in spark.read.parquet(out).collect())

    assert run() == [("one", 0), ("three", 2)]
    orders.add({"value": "four", "headers": {"kind": "refund"}})
    assert run() == [("four", 3), ("one", 0), ("three", 2)]


def test_each_addition_is_a_batch_and_old_versions_of_spark_take_all() -> None:
    source = MemorySource(None, "stream")  # type: ignore[arg-type]  # a session is for tables
    for number in range(3):
        source.add({"value": str(number), "partition": 1})
    reader = MemoryStreamReader(source.batches)
    first = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    (piece,) = reader.partitions(reader.initialOffset(), first)
    assert [row["value"] for batch in reader.read(piece) for row in batch.to_pylist()] == [b"0"]
    assert reader.latestOffset({"batches": 3}, ReadAllAvailable()) == reader.latestOffset() == {"batches": 3}
    assert [batch["offset"].to_pylist() for batch in source.batches] == [[0], [1], [2]]


@pytest.mark.parametrize("name", TABLES)
def test_rows_have_the_columns_of_the_table(name: str) -> None:
    source = MemorySource(None, name)  # type: ignore[arg-type]
    source.add({})
    (piece,) = MemoryReader(source.batches).partitions()
    (batch,) = MemoryReader(source.batches).read(piece)
    assert batch.schema.names == list(TABLES[name])
    with pytest.raises(InvalidArgument, match=f"{name} has no column 'colour'; its columns are"):
        source.add({"colour": "red"})


def test_a_table_that_there_is_not_is_named() -> None:
    with pytest.raises(InvalidArgument, match="no table 'topics': take one of queue, stream"):
        MemorySource(None, "topics")  # type: ignore[arg-type]
