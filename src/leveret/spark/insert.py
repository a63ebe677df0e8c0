"""`INSERT INTO` a queue or a stream: rows have all columns of its table, and only some can be published."""

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.types import StructType

from leveret.core.errors import InvalidArgument
from leveret.ingest.row_groups import COLUMNS
from leveret.spark.columns import chosen
from leveret.spark.messages import with_headers
from leveret.spark.options import NAMES, check_names
from leveret.spark.records import QUEUE, STREAM
from leveret.spark.sink import BatchWriter, StagedPart
from leveret.spark.target import SinkTarget, batch_target


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """What publishes a DataFrame; one that has all columns of the table of its queue or stream is an `INSERT INTO`."""
    tables = {"stream": STREAM, "queue": QUEUE}
    kind = next((kind for kind in tables if kind in options), None)
    if kind is None:
        return BatchWriter(batch_target(options, schema, overwrite))
    table = chosen(with_headers(tables[kind], options.get("includeheaders", "true")), options.get("columns"))
    if schema.names != list(table):
        return BatchWriter(batch_target(options, schema, overwrite))
    kept = [field for field in schema.fields if field.name in COLUMNS and field.name not in ("queue", "exchange")]
    check_names(options, kind, "sink")
    sink = {name.lower() for name in NAMES["sink"]}
    said = {name: text for name, text in options.items() if name in sink} | {"queue": options[kind]}
    target = batch_target(said, StructType(kept), overwrite)
    return InsertWriter(target, tuple(field.name for field in kept))


class InsertWriter(BatchWriter):
    """Publishes the columns that can be published; the others, which the broker writes, have to be null."""

    def __init__(self, target: SinkTarget, columns: tuple[str, ...]) -> None:
        super().__init__(target)
        self._columns = columns

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedPart:
        return super().write(map(self._published, iterator))

    def _published(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for name in set(batch.schema.names) - set(self._columns):
            if batch.column(name).null_count < batch.num_rows:
                raise InvalidArgument(
                    f"column {name!r} cannot be inserted, the broker writes it: name the others, as in INSERT INTO "
                    f"orders (value, headers) ...; these are {', '.join(self._columns)}"
                )
        return batch.select(list(self._columns))
