"""What is read of a broker at work: a stream or a queue, as the options say."""

from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader

from leveret.spark import queues, streams
from leveret.spark.options import Options, flag, required
from leveret.spark.queues import BrowseReader, PushdownBrowseReader, QueueSource, ReservationReader
from leveret.spark.server import Origin, SparkServer, path_of
from leveret.spark.spans import OffsetSpan
from leveret.spark.spark_api import OFFSETS_GIVEN, need_spark
from leveret.spark.stream_files import StoredStream
from leveret.spark.streams import BlockGroup, Ends, OffsetReader, RangeReader, StreamSource

PIECE_BYTES = 8 << 20


@dataclass(frozen=True)
class ServedStream:
    """One stream of one server; fit to be sent to another process."""

    origin: Origin
    stream: str

    @classmethod
    def of(cls, options: Options) -> "ServedStream":
        """What options say."""
        return cls(Origin.of(options), required(options, "stream"))

    @property
    def _server(self) -> SparkServer:
        return self.origin.server

    def _rows(self, **query: object) -> list[dict[str, Any]]:
        """What the server says of each partition."""
        found: list[dict[str, Any]] = self._server.ask("GET", self._path("offsets"), **query).json()["partitions"]
        return found

    def _path(self, what: str) -> str:
        return path_of("queues", self.stream, what)

    def ends(self) -> dict[int, Ends]:
        return {row["partition"]: Ends(row["first"], row["end"]) for row in self._rows()}

    def at(self, timestamp_ms: int) -> dict[int, int]:
        return {row["partition"]: row["at"] for row in self._rows(timestamp_ms=max(0, timestamp_ms))}

    def reach(self, spans: list[OffsetSpan], size: int) -> dict[int, int]:
        after = ",".join(f"{span.partition}:{span.first}" for span in spans)
        return {row["partition"]: row["reach"] for row in self._rows(after=after, bytes=size) if "reach" in row}

    def piece(self, span: OffsetSpan) -> BlockGroup:
        query = {"partition": span.partition, "offset": span.first, "end": span.end, "bytes": PIECE_BYTES}
        path = self._path("blocks")
        source = f"what {self._server.address!r}{path} sent of partition {span.partition} from offset {span.first} on"
        return BlockGroup(self._server.ask("GET", path, **query).body, source)


Live = StreamSource | QueueSource


def live_source(options: Options) -> Live | None:
    """The stream, or the queue of a server, that options name; None when they mean the journal."""
    if "stream" in options:
        place = ServedStream.of(options) if "url" in options else StoredStream.of(options)
        return StreamSource.of(place, options)
    if "url" in options:
        return QueueSource.of(options)
    return None


def live_reader(source: Live, options: Options) -> DataSourceReader:
    """A table."""
    if isinstance(source, StreamSource):
        return RangeReader(source, options)
    return (PushdownBrowseReader if flag(options, "pushdown", False) else BrowseReader)(source)


def live_stream_reader(source: Live, options: Options) -> DataSourceStreamReader:
    """A streaming query."""
    if isinstance(source, StreamSource):
        return OffsetReader(source, streams.StreamAdmission.of(options))
    need_spark(OFFSETS_GIVEN, "a streaming query of a queue")
    return ReservationReader(source, queues.QueueAdmission.of(options))
