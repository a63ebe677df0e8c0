"""The table port: one shard of a store in PostgreSQL, as its journal and its streams use it.

    ShardTable      the statements; each is done as a whole or not at all
    SegmentRow      one commit batch of the log, or the header of a segment: what lies in a segment file at `start`
    ShardRow        what the row of a shard says: who owns it, and where its log ends
    Unknown         raised by every statement that may have been done, or not
    StreamChange    what can happen to a segment of a stream, for the transaction of the next commit batch (Beside)
    StreamTable     everything else on streams: looking, reading, and removing what is not needed

A node that opens a shard takes it over at an epoch that is higher than any before. A statement that changes something
names the epoch that was taken and does nothing (None or False) when the shard has a newer one: its caller is fenced,
and nothing that it does has an effect any more. An append also names the number of its commit batch, which must be the
next; one that was sent and not answered may land at any later time, so False may also mean that it has: `barrier`
tells.

A statement that returns was done, and is durable wherever PostgreSQL was told to keep its commits. After Unknown a
caller asks `barrier`: it is a change itself, so when it returns, all that it tells is durable as well. It waits for
whatever is still under way in the shard, as `takeover` does.

`append`, `barrier` and `begin` come from one thread at a time, everything else from any.
`cut` may be called at any time: it ends the connections, and a caller that waits at one of them gets Unknown.
PostgresTable and PostgresStreams (statements.py, streams.py) are the real ones; tests have some in memory that hang,
cancel and fail over.

Changes of streams are stored in the transaction that appends a commit batch (`SegmentRow.beside`), in their order, all
of them or none. So they are fenced as commit batches are, their outcome is known when that of the commit batch is, and
no crash comes between them.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from leveret.storage.disk import Bytes

FIRST_START = 0
"""Where the header of a segment lies."""


class Unknown(Exception):
    """The statement may have been done, or not; the connection that it went over is gone.

    `no_room`: PostgreSQL said that it cannot take more (its disk is full, or it is only to be read).
    """

    def __init__(self, reason: str, no_room: bool = False) -> None:
        super().__init__(reason)
        self.no_room = no_room


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


class ShardRow(NamedTuple):
    """The row of a shard."""

    epoch: int
    owner: str
    last_seq: int
    """The commit batch that was appended last, as `takeover` and `barrier` tell it."""
    segment: int
    """The segment that was begun last; 0: none yet."""
    oldest: int
    """Segments below this one are not in the log any more."""
    checkpoint: str
    """The name of the checkpoint that counts; empty: there is none."""
    meta: str
    """What is true of the broker in this shard, as JSON (leveret.storage.journal.files.meta)."""


class SegmentRow(NamedTuple):
    """A piece of a segment: its header at FIRST_START, or one commit batch."""

    segment: int
    start: int
    seq: int
    """The number of the commit batch; of a header, that of the commit batch before it."""
    data: Bytes
    beside: Sequence[StreamChange] = ()
    """What is stored in the transaction of a commit batch; empty when it is read."""


class ShardTable(Protocol):
    """The statements on one shard. All of them raise Unknown; see above."""

    def takeover(self, epoch: int | None, owner: str, meta: str) -> ShardRow | None:
        """Own the shard at an epoch, or at the next one; None: there is a newer owner.

        The shard is made if need be, with `meta`. The same owner may take the same epoch again.
        """

    def barrier(self) -> ShardRow | None:
        """The row of the shard after all that was done to it so far; None: fenced."""

    def shard(self) -> ShardRow:
        """The row of the shard, whichever node owns it; without the end of its log."""

    def set_meta(self, meta: str) -> bool:
        """Let other facts be true of the broker in this shard; False: fenced."""

    def begin(self, row: SegmentRow) -> bool:
        """Begin the next segment with its header; False: fenced, or it is there already."""

    def append(self, row: SegmentRow) -> bool:
        """Append the next commit batch to a segment that was begun; False: fenced, or it is there already."""

    def rows(self, segment: int, start: int, size: int) -> list[SegmentRow]:
        """The commit batches that begin in a part of a segment, in their order."""

    def header(self, segment: int) -> bytes | None:
        """The header of a segment, if there is one."""

    def window(self, segment: int, offset: int, size: int) -> tuple[int, bytes]:
        """At least `size` bytes from an offset on, if the segment has them, and the offset of the first."""

    def batch(self, segment: int, offset: int) -> SegmentRow | None:
        """The whole commit batch that holds an offset."""

    def end(self, segment: int) -> int:
        """Where a segment ends."""

    def save(self, seq: int, parts: list[Bytes]) -> bool:
        """Store the checkpoint after a commit batch and let it count, then remove the one before it; False: fenced."""

    def load(self, checkpoint: str) -> bytes:
        """The bytes of a checkpoint; none when it is gone."""

    def remove(self, segment: int) -> bool:
        """Take the oldest segment out of the log; False: fenced."""

    def kept(self) -> list[int]:
        """The segments that are not in the log any more and were not dropped, oldest first."""

    def first_header(self, segment: int) -> bytes:
        """The header of the first commit batch of a segment; nothing if there is none."""

    def drop(self, segment: int) -> bool:
        """Drop one of those, if it is not gone already; False when others (a backup) use it."""

    def cut(self) -> None:
        """End the connections: a caller that waits at one of them gets Unknown; upkeep that comes on is left alone."""

    def close(self) -> None:
        """End all connections."""


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
