"""A scan: which segments, which rows of them, which columns; planned once, then read slice by slice in any process."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from leveret.core.names import INTERNAL_VHOST
from leveret.spark.columns import ColumnBatch, Table, chosen, record_batch
from leveret.spark.events import EVENTS
from leveret.spark.messages import MESSAGES
from leveret.spark.records import STREAM
from leveret.spark.segments import (
    ShardNames,
    Slice,
    named_slices,
    open_segment,
    segment_files,
    shard_in,
)
from leveret.storage.encryption import load_keys
from leveret.storage.journal.columns import EventColumns

TABLES: dict[str, Table] = {"events": EVENTS, "messages": MESSAGES}
ARCHIVED_TABLES: dict[str, Table] = {**TABLES, "records": STREAM}
"""An archive also has records of streams."""
FOREVER_MS = (1 << 63) - 1
BATCH_ROWS = 65_536
"""Small enough for the memory of a task, large enough that the cost of a batch does not show."""
COMMIT_DELAY_MAX_MS = 600_000
"""An event is in the log at the latest so long after it happened: slices far after `until` need not be read."""


@dataclass(frozen=True)
class JournalScan:
    """What is read; everything in it can be sent to another process, keys as the place where they are."""

    directories: tuple[str, ...]
    table: str = "events"
    columns: str | None = None
    queues: frozenset[str] | None = None
    since_ms: int = 0
    until_ms: int = FOREVER_MS
    slice_bytes: int = 32 << 20
    keys: tuple[str | None, str | None] = (None, None)
    moved: bool | None = None
    """Whether publishes that were moved forward count as messages; None: where the originals are gone."""
    beyond: str | None = None
    """An archive: only segments that it does not have."""

    @property
    def chosen(self) -> Table:
        """The columns that are read."""
        return chosen(ARCHIVED_TABLES[self.table], self.columns)

    def slices(self) -> list[Slice]:
        """The slices that may hold rows of this scan."""
        names: ShardNames = {}
        wanted = segment_files(*self.directories)
        if self.beyond is not None:
            # Not above: a journal is read without the library for archives.
            from leveret.spark.iceberg import IcebergArchive

            state = IcebergArchive(self.beyond).state(self.table)
            names, wanted = state.names, state.beyond(wanted)
        # All segments: old ones tell the names of queues that newer ones speak of.
        named = named_slices(self.directories, names, load_keys(*self.keys), self.slice_bytes)
        return [piece for piece in named if piece.path in wanted and self._may_hold(piece)]

    def batches(self, piece: Slice) -> Iterator[pa.RecordBatch]:
        """The rows of one slice."""
        table, segment = self.chosen, open_segment(piece.path)
        inner = [number for number, queue in piece.names.queues.items() if queue.vhost == INTERNAL_VHOST]
        until = self._moved_until(piece)
        for offset, end, moved in ((piece.offset, until, True), (until, piece.end, False)):
            columns = EventColumns(
                segment.data,
                piece.path,
                offset,
                end,
                segment.header.salt,
                open_batch=segment.header.opener(load_keys(*self.keys)),
                queues=None if self.queues is None else piece.names.numbers(self.queues),
                since_ms=self.since_ms,
                until_ms=self.until_ms,
                content=self.table == "messages",
                moved=moved,
            )
            while columns.fill(BATCH_ROWS):
                batch = ColumnBatch(columns.rows, columns.take(), piece.names, shard_in(piece.path))
                rows = record_batch(table, batch)
                if inner:  # outbox messages between shards, which are no messages of anybody
                    queues = batch.array("queue", pa.int32())
                    rows = rows.filter(pc.invert(pc.is_in(queues, pa.array(inner, pa.int32()))))
                if rows.num_rows:
                    yield rows

    def _may_hold(self, piece: Slice) -> bool:
        """Whether a slice has wanted queues and is of a wanted time."""
        has_wanted = self.queues is None or any(queue.name in self.queues for queue in piece.names.queues.values())
        if not (has_wanted or (piece.has_broker_events and self.table == "events")):
            return False
        early_enough = piece.first_ms - COMMIT_DELAY_MAX_MS < self.until_ms
        return piece.last_ms >= self.since_ms and (early_enough or self._moved_until(piece) > piece.offset)

    def _moved_until(self, piece: Slice) -> int:
        """Up to where publishes that were moved forward count: as messages only where the originals are gone."""
        if self.table == "events" or self.moved:
            return piece.end
        return piece.offset if self.moved is False else max(piece.offset, piece.moved_until)
