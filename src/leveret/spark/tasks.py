"""Tasks of our own: each makes rows of one piece of what the driver has.

A source does it, whose class carries the pieces: `mapInArrow` would need pandas, and Spark Connect has no RDDs.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

Batches = Iterable[pa.RecordBatch]


class Scattered(DataSource):
    """What tasks make of pieces that the driver has: the classes made of it carry them to the tasks."""

    columns: str
    pieces: list[Any]
    work: Callable[[Any], Batches]

    @classmethod
    def name(cls) -> str:
        return "leveret_tasks"

    def schema(self) -> str:
        return self.columns

    def reader(self, schema: StructType) -> DataSourceReader:
        return ScatteredReader(self.pieces, type(self).work)


@dataclass(frozen=True)
class Piece(InputPartition):
    """What one task works on."""

    piece: Any

    def __post_init__(self) -> None:
        """Spark's own field is not needed."""


class ScatteredReader(DataSourceReader):
    """Gives each task a piece."""

    def __init__(self, pieces: list[Any], work: Callable[[Any], Batches]) -> None:
        self._pieces, self._work = pieces, work

    def __getstate__(self) -> dict[str, Any]:
        """What every task gets; pieces go to one each."""
        return {"_pieces": [], "_work": self._work}

    def partitions(self) -> list[InputPartition]:
        return [Piece(piece) for piece in self._pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, Piece):
            yield from self._work(partition.piece)


def scattered(spark: SparkSession, pieces: list[Any], columns: str, work: Callable[[Any], Batches]) -> DataFrame:
    """The rows that a task makes of each piece."""
    made: type[DataSource] = type(
        "Pieces", (Scattered,), {"columns": columns, "pieces": pieces, "work": staticmethod(work)}
    )
    spark.dataSource.register(made)
    return spark.read.format(made.name()).load()
