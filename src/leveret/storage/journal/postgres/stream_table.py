"""The stream port: segments of streams in the tables of a shard, beside the segments of its log.

    SegmentKey                      which segment of which partition of which stream
    Piece, NewIndex, Removal        what can happen to one; StreamChange is any of them
    Beside                          what has such changes for the transaction of the next commit batch
    StreamTable                     everything else: looking, reading, and removing what is not needed

Changes are stored in the transaction that appends a commit batch (`Row.beside`), in their order, all of them or none.
So they are fenced as commit batches are, their outcome is known when that of the commit batch is, and no crash comes
between them. PostgresStreams of leveret.storage.journal.postgres.streams is the real one.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from leveret.storage.disk import Bytes


class SegmentKey(NamedTuple):
    """A segment of a stream: the offset of its first record tells it from the others of its partition."""

    stream: int
    partition: int
    base: int


class SegmentAppend(NamedTuple):
    """More bytes of a segment; one that starts at 0 begins it."""

    segment: SegmentKey
    start: int
    data: Bytes


class NewIndex(NamedTuple):
    """The index of a segment, in the place of the one before."""

    segment: SegmentKey
    data: Bytes


class Removal(NamedTuple):
    """A segment is not in its stream any more; its bytes stay until `drop`."""

    segment: SegmentKey


StreamChange = SegmentAppend | NewIndex | Removal


class StoredSegment(NamedTuple):
    """A segment that is in its stream."""

    key: SegmentKey
    size: int
    indexed: bool


class Beside(Protocol):
    """What is stored together with commit batches. One caller at a time."""

    def take(self) -> Sequence[StreamChange]:
        """The changes for the next commit batch; the same ones again until they are stored."""

    def stored(self) -> None:
        """The commit batch is durable, and what was taken with it."""


class StreamTable(Protocol):
    """The segments of all streams of one shard; from any thread. All methods raise Unknown, see Table."""

    def segments(self) -> list[StoredSegment]:
        """What all streams have, after removing what was left behind."""

    def read(self, segment: SegmentKey, start: int, size: int) -> bytes:
        """Some bytes of a segment; fewer at its end."""

    def index(self, segment: SegmentKey) -> bytes | None:
        """The index of a segment."""

    def forget(self, stream: int) -> bool:
        """Take all segments out of a stream; False: fenced."""

    def drop(self, segment: SegmentKey) -> bool:
        """Remove the bytes of a segment that is in no stream; False: fenced."""

    def rest(self) -> None:
        """End the connection if nothing was read for a while; to be called now and then."""

    def close(self) -> None:
        """End the connection."""
