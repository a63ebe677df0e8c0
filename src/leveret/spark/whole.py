"""The whole history: a Parquet archive, and what the journal has beyond it.

Messages that were moved forward in the journal are those of the archive. One whose own segment was gone before the
archive began is a message once the segment that it was moved to is archived.
"""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from leveret.spark.parquet import FilesPartition, ParquetReader
from leveret.spark.scan import JournalScan
from leveret.spark.segments_reader import SegmentsReader


class WholeReader(DataSourceReader):
    """Plans files of the archive and slices of segments; reads either in a task."""

    def __init__(self, scan: JournalScan) -> None:
        """Read what a scan says, whose directories are the one of the broker and the archive."""
        self.scan = scan

    @property
    def _past(self) -> ParquetReader:
        return ParquetReader(replace(self.scan, directories=self.scan.directories[1:]))

    @property
    def _news(self) -> SegmentsReader:
        data, archive = self.scan.directories
        return SegmentsReader(replace(self.scan, directories=(data,), beyond=archive, moved=False))

    def partitions(self) -> list[InputPartition]:
        """The files of the archive, then the slices."""
        return [*self._past.partitions(), *self._news.partitions()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some files, or of a slice."""
        return (self._past if isinstance(partition, FilesPartition) else self._news).read(partition)
