"""For tests of your own jobs: a small session of Spark, sources in memory, and what a sink would publish.

pytest_plugins = ["leveret.spark.testing"]              # in conftest.py: the fixture `leveret_spark`

def test_refunds(leveret_spark):
    orders = MemorySource(leveret_spark, "queue")       # the columns are those of the real one
    orders.add({"value": '{"id": 7}', "headers": {"kind": "refund"}})
    assert refunds(orders.table()).count() == 1         # refunds(orders.stream()) is the same as a stream
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from leveret.core.errors import InvalidArgument
from leveret.spark.columns import Table, spark_schema
from leveret.spark.events import EVENTS
from leveret.spark.messages import MESSAGES
from leveret.spark.records import QUEUE, STREAM
from leveret.spark.session import SMALL, session
from leveret.spark.spark_api import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from leveret.spark.target import batch_target

TABLES: Mapping[str, Table] = {"queue": QUEUE, "stream": STREAM, "messages": MESSAGES, "events": EVENTS}
NUMBERS = {"queue": "offset", "stream": "offset", "messages": "offset", "events": "seq"}
"""What counts the rows of a table."""


@pytest.fixture(scope="session")
def leveret_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session for tables of some thousand rows, which starts and answers quickly."""
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    spark = session("local[2]", **SMALL, **{"spark.sql.warehouse.dir": warehouse})
    yield spark
    spark.stop()


@dataclass
class MemorySource:
    """Rows that a test adds, with the columns of a `queue` or a `stream`, or of the tables `messages` and `events`."""

    spark: SparkSession
    name: str = "queue"
    batches: list[pa.RecordBatch] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.name not in TABLES:
            raise InvalidArgument(f"there is no table {self.name!r}: take one of {', '.join(TABLES)}")

    def add(self, *rows: Mapping[str, Any]) -> None:
        """Add rows, which are one batch of a streaming query; columns that are not named are null, offsets count on."""
        table, number = TABLES[self.name], NUMBERS[self.name]
        if strange := sorted({column for row in rows for column in row} - set(table)):
            raise InvalidArgument(f"{self.name} has no column {strange[0]!r}; its columns are {', '.join(table)}")
        first = sum(batch.num_rows for batch in self.batches)
        told = [
            {number: first + place, **{name: _plain(value) for name, value in row.items()}}
            for place, row in enumerate(rows)
        ]
        schema = pa.schema([(name, column.arrow) for name, column in table.items()])
        self.batches.append(pa.RecordBatch.from_pylist(told, schema))

    def table(self) -> DataFrame:
        """All rows that were added until now."""
        return self.spark.read.format(self._registered()).load()

    def stream(self) -> DataFrame:
        """The same rows as a stream, in the batches in which they were added: with `trigger(availableNow=True)` a
        query ends after the last one, and goes on from there when more were added and it is started again."""
        return self.spark.readStream.format(self._registered()).load()

    def _registered(self) -> str:
        facts = {"columns": spark_schema(TABLES[self.name]), "batches": list(self.batches)}
        made: type[DataSource] = type("Rows", (MemoryRows,), facts)
        self.spark.dataSource.register(made)
        return made.name()


def published(rows: DataFrame, **options: str) -> list[Row]:
    """What a sink with these options would publish: columns and options are checked, nothing is sent."""
    batch_target(
        {"url": "http://localhost", **{name.lower(): text for name, text in options.items()}}, rows.schema, False
    )
    return rows.collect()


def _plain(value: Any) -> Any:
    """A value as Arrow takes it."""
    return list(value.items()) if isinstance(value, Mapping) else value


@dataclass(frozen=True)
class Numbered(InputPartition):
    """One batch."""

    number: int

    def __post_init__(self) -> None:
        """Spark's own field is not needed."""


class MemoryRows(DataSource):
    """A source whose class has the rows."""

    columns: ClassVar[str]
    batches: ClassVar[list[pa.RecordBatch]]

    @classmethod
    def name(cls) -> str:
        return "leveret_memory"

    def schema(self) -> str:
        return self.columns

    def reader(self, schema: StructType) -> "MemoryReader":
        return MemoryReader(self.batches)

    def streamReader(self, schema: StructType) -> "MemoryStreamReader":
        return MemoryStreamReader(self.batches)


class MemoryReader(DataSourceReader):
    """All batches, in a task each."""

    def __init__(self, batches: list[pa.RecordBatch]) -> None:
        self._batches = batches

    def partitions(self) -> list[InputPartition]:
        return [Numbered(number) for number in range(len(self._batches))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a batch; without any Spark still asks once."""
        if isinstance(partition, Numbered):
            yield self._batches[partition.number]


Offset = dict[str, int]


class MemoryStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One batch after the other."""

    def __init__(self, batches: list[pa.RecordBatch]) -> None:
        self._batches = batches

    def initialOffset(self) -> Offset:
        return {"batches": 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(1)

    def prepareForTriggerAvailableNow(self) -> None:
        """Nothing: what is added later is in another source."""

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:
        """After the next batch; Spark before 4.2 does not say which one that is, and takes all."""
        end = len(self._batches)
        return {"batches": end if start is None else min(start["batches"] + 1, end)}

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        return [Numbered(number) for number in range(start["batches"], end["batches"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return MemoryReader(self._batches).read(partition)

    def commit(self, end: Offset) -> None:
        """Nothing: the checkpoint is the only memory."""
