"""Segments in PostgreSQL as files: those that are not written to any more are fetched, and read as all others are.

Only the driver speaks with the databases. What it fetches lies in a folder of the archive, which every machine sees,
and goes when it has been taken in; a run that was killed left some there, and the next one begins anew.
"""

import os
import shutil
from collections.abc import Callable, Container, Iterator
from contextlib import closing
from typing import TypeVar

from leveret.cluster.shards.groups import shards_of
from leveret.core.errors import JournalFailed, PreconditionFailed
from leveret.spark.archive_state import ArchivedJournal, ArchiveState
from leveret.storage.journal.files.segments import parse_header, segment_name, shard_name
from leveret.storage.journal.postgres.reader import asked
from leveret.storage.journal.postgres.statements import PostgresTable
from leveret.storage.journal.postgres.table import FIRST_START

FOLDER = "segments"
FETCHED_BYTES = 8 << 20
"""Asked for at once."""

T = TypeVar("T")


class StoreSegments:
    """Those of a single broker, or of all shards of a cluster, whichever databases these are in."""

    def __init__(self, store: str, archive: str) -> None:
        """Look where a store ends; fetch from it into an archive that this process has for itself."""
        self.directory = os.path.join(archive, FOLDER)
        self._shards = shards_of(store)
        self.newest: dict[int, int] = {}
        """By shard: the segment that was being written before the first was fetched."""
        for shard in self._shards:
            with closing(self._table(shard)) as table:
                self.newest[shard] = asked(table.shard).segment
        self.close()
        os.makedirs(self.directory)

    def _table(self, shard: int) -> PostgresTable:
        """The tables of a shard; whatever is asked of them may be asked again."""
        return PostgresTable(self._shards[shard], shard)

    def fetched(self, state: ArchiveState, there: Container[tuple[int, int]]) -> Iterator[str]:
        """The sealed segments that are to be archived; those that are `there` (shard and number) are not fetched."""
        for shard, newest in self.newest.items():
            journal, folder = state.journal(shard), os.path.join(self.directory, shard_name(shard))
            os.makedirs(folder, exist_ok=True)
            with closing(self._table(shard)) as table:
                _check(table, shard, newest, journal)
                for number in (*asked(table.kept), *range(asked(table.shard).oldest, newest)):
                    path = os.path.join(folder, segment_name(number))
                    if journal.wants(number) and (shard, number) not in there and _fetch(table, number, path):
                        yield path

    def drop(self, files: list[str]) -> None:
        """Remove what was fetched."""
        for path in files:
            if os.path.dirname(os.path.dirname(path)) == self.directory:
                os.unlink(path)

    def close(self) -> None:
        """Remove everything."""
        shutil.rmtree(self.directory, ignore_errors=True)


def remove_archived(store: str, state: ArchiveState) -> int:
    """Drop the segments of history that an archive has; how many they were."""
    removed = 0
    for shard, url in shards_of(store).items():
        with closing(PostgresTable(url, shard)) as table:
            archived = [number for number in asked(table.kept) if state.journal(shard).has(number)]
            removed += sum(map(table.drop, archived))
    return removed


def _check(table: PostgresTable, shard: int, newest: int, journal: ArchivedJournal) -> None:
    """Refuse the journal of another broker: what the archive has last is there with the same salt, or was removed."""
    last = journal.last
    if last < asked(table.shard).oldest:
        return
    header = _unless_gone(table, last, lambda: asked(table.header, last)) if last <= newest else b""
    parsed = None if header is None else parse_header(header, last)
    if header is not None and (parsed is None or parsed.salt != journal.salt):
        raise PreconditionFailed(f"shard {shard} is of another broker than this archive: give each its own archive")


def _fetch(table: PostgresTable, segment: int, path: str) -> bool:
    """Write a segment into a file; False when the broker has removed it."""

    def write() -> bool:
        offset = FIRST_START
        with open(path, "wb") as file:
            while piece := asked(table.window, segment, offset, FETCHED_BYTES)[1]:
                file.write(piece)
                offset += len(piece)
        return True

    return _unless_gone(table, segment, write) or False


def _unless_gone(table: PostgresTable, segment: int, work: Callable[[], T]) -> T | None:
    """What comes of something that needs a segment; None: it was removed before, or meanwhile."""
    try:
        return work()
    except JournalFailed:
        if segment >= asked(table.shard).oldest:
            raise
        return None
