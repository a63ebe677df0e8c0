"""What is read of a broker at work: a stream or a queue, as the options say."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader

from leveret.core.errors import StaleGeneration
from leveret.spark import queues
from leveret.spark.options import Options
from leveret.spark.queues import BrowseReader, QueueSource, ReservationReader
from leveret.spark.server import Origin, SparkServer, path_of
from leveret.spark.spans import OffsetSpan
from leveret.spark.spark_api import OFFSETS_GIVEN, need_spark
from leveret.spark.stream_files import StoredStreams
from leveret.spark.stream_query import OffsetReader, StreamAdmission
from leveret.spark.streams import BlockGroup, Ends, RangeReader, StreamSource, Survey

PIECE_BYTES = 8 << 20
MEMBER = "spark"
"""The name of a query in a consumer group."""


@dataclass(frozen=True)
class ServedStream:
    """One stream of one server; fit to be sent to another process."""

    origin: Origin
    stream: str

    @property
    def _server(self) -> SparkServer:
        return self.origin.server

    def _asked(self, **query: object) -> dict[str, Any]:
        """What the server says of the stream."""
        found: dict[str, Any] = self._server.ask("GET", self._path("offsets"), **query).json()
        return found

    def _path(self, what: str) -> str:
        return path_of("queues", self.stream, what)

    def survey(self) -> Survey:
        found = self._asked()
        ends = {row["partition"]: Ends(row["first"], row["end"]) for row in found["partitions"]}
        return Survey(found.get("id", 0), ends)

    def at(self, timestamp_ms: int) -> dict[int, int]:
        return {row["partition"]: row["at"] for row in self._asked(timestamp_ms=max(0, timestamp_ms))["partitions"]}

    def reach(self, spans: list[OffsetSpan], size: int) -> dict[int, int]:
        after = ",".join(f"{span.partition.number}:{span.first}" for span in spans)
        rows = self._asked(after=after, bytes=size)["partitions"]
        return {row["partition"]: row["reach"] for row in rows if "reach" in row}

    def piece(self, span: OffsetSpan) -> BlockGroup:
        query = {"partition": span.partition.number, "offset": span.first, "end": span.end, "bytes": PIECE_BYTES}
        path = self._path("blocks")
        source = (
            f"what {self._server.address!r}{path} sent of partition {span.partition.number} from offset {span.first} on"
        )
        return BlockGroup(self._server.ask("GET", path, **query).body, source)

    def note(self, group: str, offsets: dict[int, int]) -> None:
        path = path_of("streams", self.stream, "groups", group)
        joined = self._server.ask("POST", f"{path}/join", {"member": MEMBER}).json()
        own = {str(number): offsets[number] for number in joined["partitions"] if number in offsets}
        told = {"member": MEMBER, "generation": joined["generation"], "offsets": own}
        with suppress(StaleGeneration):  # another member came or went since: the next batch tells it
            self._server.ask("POST", f"{path}/commit", told)


@dataclass(frozen=True)
class Server:
    """The streams of a server; fit to be sent to another process."""

    origin: Origin

    def stream(self, name: str) -> ServedStream:
        return ServedStream(self.origin, name)

    def streams(self) -> list[str]:
        found: list[str] = []
        after: str | None = ""
        while after is not None:
            page = self.origin.server.ask("GET", "/streams", after=after).json()
            found += [row["name"] for row in page["streams"]]
            after = page["next"]
        return found


Live = StreamSource | QueueSource


def live_source(options: Options) -> Live | None:
    """The stream, or the queue of a server, that options name; None when they mean the journal."""
    if options.keys() & {"stream", "streams", "streampattern", "assign"}:
        broker = Server(Origin.of(options)) if "url" in options else StoredStreams.of(options)
        return StreamSource.of(broker, options)
    if "url" in options:
        return QueueSource.of(options)
    return None


def live_reader(source: Live, options: Options) -> DataSourceReader:
    """A table."""
    if isinstance(source, StreamSource):
        return RangeReader(source, options)
    return BrowseReader(source, options)


def live_stream_reader(source: Live, options: Options) -> DataSourceStreamReader:
    """A streaming query."""
    if isinstance(source, StreamSource):
        return OffsetReader(source, StreamAdmission.of(options))
    need_spark(OFFSETS_GIVEN, "a streaming query of a queue")
    return ReservationReader(source, queues.QueueAdmission.of(options))
