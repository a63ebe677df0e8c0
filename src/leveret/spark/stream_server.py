"""A stream of a server, as a place that tasks read from."""

from dataclasses import dataclass
from typing import Any

from leveret.spark.options import Options, required
from leveret.spark.server import Origin, SparkServer, path_of
from leveret.spark.spans import OffsetSpan
from leveret.spark.streams import BlockGroup, Ends

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
