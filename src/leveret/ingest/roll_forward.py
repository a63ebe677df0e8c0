"""Publishing a batch that was decided on: chunk after chunk, each in one frame with how far the batch is by then.

    load    without the lock: reads staged pieces, puts large bodies away
    step    under the lock: publishes what was loaded, as much as there is room for, and notes it

Its driver commits after each step; the frames are durable in their order. After a restart a new one goes on with
the first row that no frame tells of. Streams are committed before the frame, so they may have such rows already: they
know them by the producer of the batch and their number.
"""

from collections.abc import Callable, Iterator

from leveret.core.broker import Broker
from leveret.embedded.outgoing import Prepared
from leveret.ingest.commit_log import Batch, Ledger
from leveret.ingest.other_shards import Elsewhere
from leveret.ingest.publishing import Chunk, publish
from leveret.ingest.row_groups import Piece
from leveret.ingest.rows import Row, Rows, Stretch
from leveret.ingest.staging import Staging

CHUNK_ROWS = 2_000  # that are published while others wait for the lock
CHUNK_BYTES = 1 << 20
STRETCH_ROWS = 8_000  # the same for rows that take less time
STRETCH_ROWS_MIN = 100  # fewer share a frame with those of other pieces

PutAway = Callable[[Chunk], Chunk]


def pieces_of(staging: Staging, batch: Batch, body_bytes_max: int) -> Iterator[Rows]:
    """The rows of a batch in order, piece by piece."""
    for share in batch.shares:
        for piece in range(share.pieces):
            yield Rows(Piece(staging.read(batch.sink, share.part, piece)), body_bytes_max)


def chunks(
    pieces: Iterator[Rows], first: int = 0, read: Callable[[Rows, int], Iterator[Row]] = Rows.read
) -> Iterator[Chunk]:
    """The rows of pieces from one on, as much as one frame takes at a time."""
    chunk: list[Row] = []
    size = 0
    for rows in pieces:
        start = min(first, len(rows))
        first -= start
        stretch = rows.stretch(start) if len(rows) - start >= STRETCH_ROWS_MIN else None
        if stretch is not None:
            if chunk:
                yield chunk
                chunk, size = [], 0
            yield from stretch.cut(STRETCH_ROWS, CHUNK_BYTES)
            continue
        for row in read(rows, start):
            chunk.append(row)
            size += len(row.body)
            if len(chunk) >= CHUNK_ROWS or size >= CHUNK_BYTES:
                yield chunk
                chunk, size = [], 0
    if chunk:
        yield chunk


class RollForward:
    """One batch on its way into queues."""

    def __init__(
        self,
        ledger: Ledger,
        staging: Staging,
        batch: Batch,
        body_bytes_max: int,
        put_away: PutAway = lambda chunk: chunk,
        drop_unused: Callable[[Prepared], None] = lambda message: None,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        """Go on where the ledger says that it is."""
        self.batch = batch
        self._ledger = ledger
        self._put_away = put_away
        self._drop_unused = drop_unused
        self._elsewhere = elsewhere
        self._chunks = chunks(pieces_of(staging, batch, body_bytes_max), batch.done)
        self._loaded: Chunk = []

    @property
    def ended(self) -> bool:
        """Whether all of it is published."""
        return self.batch.done >= self.batch.rows

    def load(self) -> None:
        """Have something to publish, unless there is some left."""
        if not self._loaded:
            self._loaded = self._put_away(next(self._chunks, []))

    def step(self, core: Broker) -> bool:
        """Publish what was loaded; False when a full queue or disk has to be waited for."""
        batch = self.batch
        taken = publish(core, batch.sink.vhost, self._loaded, batch.producer.encode(), batch.done, self._elsewhere)
        rest = self._loaded
        if isinstance(rest, Stretch):
            self._loaded = rest.after(taken.rows)
        else:
            self._loaded = rest[taken.rows :]
            for row in rest[: taken.rows]:  # a duplicate may have been put away
                self._drop_unused(row.message)
        if taken.rows:
            self._ledger.advance(batch, batch.done + taken.rows, batch.dropped + taken.dropped)
        return taken.rows > 0
