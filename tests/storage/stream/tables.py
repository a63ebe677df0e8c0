"""Streams in tables that are in memory: the port of leveret.storage.journal.postgres.table, and a world on
it.
"""

from collections.abc import Sequence
from typing import Any

from leveret.storage.journal.postgres.reader import Questions
from leveret.storage.journal.postgres.table import (
    NewIndex,
    Removal,
    SegmentAppend,
    SegmentKey,
    StoredSegment,
    StreamChange,
)
from leveret.storage.stream.postgres import TableStreamDirectories
from tests.storage.stream.world import World


class MemoryStreams:
    """What a database would have; StreamTable of leveret.storage.journal.postgres.table says what the
    methods do.
    """

    def __init__(self) -> None:
        self.bytes: dict[SegmentKey, bytes] = {}
        self.indexes: dict[SegmentKey, bytes | None] = {}
        self.reads = 0

    def store(self, changes: Sequence[StreamChange]) -> None:
        for change in changes:
            if isinstance(change, SegmentAppend):
                before = self.bytes.get(change.segment, b"")
                assert change.start == len(before), "pieces follow each other"
                self.bytes[change.segment] = before + change.data
                self.indexes.setdefault(change.segment, None)
            elif isinstance(change, NewIndex):
                assert change.segment in self.indexes
                self.indexes[change.segment] = bytes(change.data)
            else:
                assert isinstance(change, Removal)
                del self.indexes[change.segment]

    def segments(self) -> list[StoredSegment]:
        self.bytes = {key: data for key, data in self.bytes.items() if key in self.indexes}
        return [StoredSegment(key, len(self.bytes[key]), index is not None) for key, index in self.indexes.items()]

    def read(self, segment: SegmentKey, start: int, size: int) -> bytes:
        self.reads += 1
        return self.bytes[segment][start : start + size]

    def index(self, segment: SegmentKey) -> bytes | None:
        return self.indexes[segment]

    def forget(self, stream: int) -> bool:
        self.indexes = {key: index for key, index in self.indexes.items() if key.stream != stream}
        return True

    def drop(self, segment: SegmentKey) -> bool:
        assert segment not in self.indexes, "it is in its stream"
        del self.bytes[segment]
        return True

    def rest(self) -> None:
        pass

    def close(self) -> None:
        pass


class TablesWorld(World):
    """One process that has a log in tables open; what is committed was stored with a frame."""

    def __init__(self, **options: Any) -> None:
        self.table = MemoryStreams()
        self._take_over()
        super().__init__(self.disk, **options)

    def _take_over(self) -> None:
        self.directories = TableStreamDirectories(self.table, Questions())
        self.disk = self.directories.partition(1, 0)

    def store(self) -> None:
        """A frame has become durable."""
        self.table.store(self.directories.changes.take())
        self.directories.changes.stored()
        self.directories.tidy()

    def commit(self) -> int:
        self.log.write(self.now_ms)
        self.store()
        return self.log.reveal()

    def retain(self, *limits: Any, **named: Any) -> int:
        removed = super().retain(*limits, **named)
        self.store()
        return removed

    def restart(self) -> None:
        self.log.close(self.now_ms)
        self.store()
        self._take_over()
        self.log = self.opened()

    def kill(self) -> None:
        self._take_over()
        super().kill()
