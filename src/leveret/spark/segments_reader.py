"""Reading segments of the journal: slices of them, each in a task."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from leveret.spark.scan import JournalScan
from leveret.spark.segments import Slice


@dataclass(frozen=True)
class SegmentPartition(InputPartition):
    """What one task reads."""

    slice: Slice

    def __post_init__(self) -> None:
        """Spark's own field is not needed."""


class SegmentsReader(DataSourceReader):
    """Plans slices of segments; reads each in a task."""

    def __init__(self, scan: JournalScan) -> None:
        self.scan = scan

    def partitions(self) -> list[InputPartition]:
        """The slices that may hold something wanted; what is learned here goes with them."""
        return [SegmentPartition(piece) for piece in self.scan.slices()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a slice; without any slice Spark still asks once."""
        if isinstance(partition, SegmentPartition):
            yield from self.scan.batches(partition.slice)
