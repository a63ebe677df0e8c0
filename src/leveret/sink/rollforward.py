"""Publishing a batch that was decided on: chunk after chunk, each in one frame with how far the batch is by then.

    load    without the lock: reads staged pieces, puts large bodies away
    step    under the lock: publishes what was loaded, as much as there is room for, and notes it

Whoever drives it commits after each step; the frames are durable in their order. After a restart a new one goes on with
the first row that no frame tells of.
"""

from collections.abc import Callable, Iterator

from leveret.core.broker import Broker
from leveret.sink.ledger import Batch, Ledger
from leveret.sink.pieces import Piece
from leveret.sink.publishing import publish
from leveret.sink.rows import Row, Rows
from leveret.sink.staging import Staging

CHUNK_ROWS = 2_000  # that are published while others wait for the lock
CHUNK_BYTES = 1 << 20

PutAway = Callable[[Row], Row]


def pieces_of(staging: Staging, batch: Batch, body_bytes_max: int) -> Iterator[Rows]:
    """The rows of a batch in order, piece by piece."""
    for share in batch.shares:
        for piece in range(share.pieces):
            yield Rows(Piece(staging.read(batch.sink, share.part, piece)), body_bytes_max)


def rows_of(staging: Staging, batch: Batch, body_bytes_max: int, first: int = 0) -> Iterator[Row]:
    """The rows of a batch in order, from one on."""
    for rows in pieces_of(staging, batch, body_bytes_max):
        yield from rows.read(min(first, len(rows)))
        first = max(0, first - len(rows))


def chunks(rows: Iterator[Row]) -> Iterator[list[Row]]:
    """Rows in lists that one frame takes."""
    chunk: list[Row] = []
    size = 0
    for row in rows:
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
        self, ledger: Ledger, staging: Staging, batch: Batch, body_bytes_max: int, put_away: PutAway = lambda row: row
    ) -> None:
        """Go on where the ledger says that it is."""
        self.batch = batch
        self._ledger = ledger
        self._put_away = put_away
        self._chunks = chunks(rows_of(staging, batch, body_bytes_max, batch.done))
        self._loaded: list[Row] = []

    @property
    def ended(self) -> bool:
        """Whether all of it is published."""
        return self.batch.done >= self.batch.rows

    def load(self) -> None:
        """Have something to publish, unless there is some left."""
        if not self._loaded:
            self._loaded = [self._put_away(row) for row in next(self._chunks, [])]

    def step(self, core: Broker) -> bool:
        """Publish what was loaded; False when a full queue or disk has to be waited for."""
        batch = self.batch
        taken = publish(core, batch.sink.vhost, self._loaded)
        self._loaded = self._loaded[taken.rows :]
        if taken.rows:
            self._ledger.advance(batch, batch.done + taken.rows, batch.dropped + taken.dropped)
        return taken.rows > 0
