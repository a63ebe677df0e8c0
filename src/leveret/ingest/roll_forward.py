"""Publishing a batch that was decided on: chunk after chunk, each in one commit batch with how far the batch is by
then.

    load    without the lock: reads staged pieces, puts large bodies away
    step    under the lock: publishes what was loaded, as much as there is room for, and notes it

Its driver commits after each step; the commit batches are durable in their order. After a restart a new one goes on
with the first row that no commit batch tells of. Streams are committed before the commit batch, so they may have such
rows already: they know them by the producer of the batch and their number.
"""

from collections.abc import Callable, Iterator

from leveret.core.broker import Broker
from leveret.ingest.commit_log import CommitLog, IngestBatch
from leveret.ingest.publishing import Chunk, OtherShards, publish
from leveret.ingest.row_groups import RowGroup
from leveret.ingest.rows import IngestRow, IngestRows, RowRun
from leveret.ingest.staging import Staging
from leveret.runtime.outgoing import PreparedMessage

CHUNK_ROWS = 2_000  # that are published while others wait for the lock
CHUNK_BYTES = 1 << 20
PACKED_ROWS = 8_000  # the same for rows that take less time
PACKED_ROWS_MIN = 100  # fewer share a commit batch with those of other pieces

PutAway = Callable[[Chunk], Chunk]


def row_groups_of(staging: Staging, batch: IngestBatch, body_bytes_max: int) -> Iterator[IngestRows]:
    """The rows of a batch in order, piece by piece."""
    for share in batch.shares:
        for row_group in range(share.row_groups):
            yield IngestRows(RowGroup(staging.read(batch.sink, share.part, row_group)), body_bytes_max)


def chunks(
    row_groups: Iterator[IngestRows],
    first: int = 0,
    read: Callable[[IngestRows, int], Iterator[IngestRow]] = IngestRows.read,
) -> Iterator[Chunk]:
    """The rows of pieces from one on, as much as one commit batch takes at a time."""
    chunk: list[IngestRow] = []
    size = 0
    for rows in row_groups:
        start = min(first, len(rows))
        first -= start
        row_run = rows.row_run(start) if len(rows) - start >= PACKED_ROWS_MIN else None
        if row_run is not None:
            if chunk:
                yield chunk
                chunk, size = [], 0
            yield from row_run.cut(PACKED_ROWS, CHUNK_BYTES)
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
        commit_log: CommitLog,
        staging: Staging,
        batch: IngestBatch,
        body_bytes_max: int,
        put_away: PutAway = lambda chunk: chunk,
        drop_unused: Callable[[PreparedMessage], None] = lambda message: None,
        other_shards: OtherShards | None = None,
    ) -> None:
        self.batch = batch
        self._commit_log = commit_log
        self._put_away = put_away
        self._drop_unused = drop_unused
        self._other_shards = other_shards
        self._chunks = chunks(row_groups_of(staging, batch, body_bytes_max), batch.done)
        self._loaded: Chunk = []

    @property
    def ended(self) -> bool:
        return self.batch.done >= self.batch.rows

    def load(self) -> None:
        """Have something to publish, unless there is some left."""
        if not self._loaded:
            self._loaded = self._put_away(next(self._chunks, []))

    def step(self, core: Broker) -> bool:
        """Publish what was loaded; False when a full queue or disk has to be waited for."""
        batch = self.batch
        taken = publish(core, batch.sink.vhost, self._loaded, batch.producer.encode(), batch.done, self._other_shards)
        rest = self._loaded
        if isinstance(rest, RowRun):
            self._loaded = rest.after(taken.rows)
        else:
            self._loaded = rest[taken.rows :]
            for row in rest[: taken.rows]:  # a duplicate may have been put away
                self._drop_unused(row.message)
        if taken.rows:
            self._commit_log.advance(batch, batch.done + taken.rows, batch.dropped + taken.dropped)
        return taken.rows > 0
