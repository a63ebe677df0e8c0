"""What of a stream is not archived yet: a range of offsets of each partition, fixed before it is read."""

import json
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from leveret.core.errors import InvalidArgument, PreconditionFailed
from leveret.spark.live import live_source
from leveret.spark.streams import StreamSource


@dataclass(frozen=True)
class News:
    """Offsets from which on, and before which, records are new; by the number of the partition, as text."""

    start: dict[str, int]
    end: dict[str, int]
    missing: int
    """Records that retention removed before they were archived."""

    @property
    def records(self) -> int:
        """How many are new."""
        return sum(self.end.values()) - sum(self.start.values())

    def read(self, spark: SparkSession, options: dict[str, str]) -> DataFrame:
        """The new records."""
        reader = spark.read.format("leveret").options(**options)
        return reader.options(startingOffsets=json.dumps(self.start), endingOffsets=json.dumps(self.end)).load()


def new_records(options: dict[str, str], archived: dict[str, int]) -> News:
    """What is new of the stream that options name, after what is archived."""
    source = live_source(options)
    if not isinstance(source, StreamSource):
        raise InvalidArgument("streams are read from --path or --url: name one of them")
    start, end, missing = {}, {}, 0
    for partition, there in sorted(source.place.ends().items()):
        name = str(partition)
        wanted = archived.get(name, there.first)
        if wanted > there.end:
            raise PreconditionFailed(
                f"stream {source.stream!r} is archived up to offset {wanted} and ends at {there.end}: it was made "
                "anew; give it an archive of its own"
            )
        start[name], end[name] = max(wanted, there.first), there.end
        missing += start[name] - wanted
    return News(start, end, missing)
