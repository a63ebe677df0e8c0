"""Segments in PostgreSQL as files: those that nobody writes to any more are fetched, and read as all others are.

Only the driver speaks with the databases. What it fetches lies in a folder of the archive, which every machine sees,
and goes when it has been taken in; a run that was killed left some there, and the next one begins anew.
"""

import os
import shutil
from collections.abc import Container, Iterator

from leveret.cluster.shard_groups import shards_of
from leveret.core.errors import JournalFailed, PreconditionFailed, StoreUnreachable
from leveret.journal.postgres import PostgresTable
from leveret.journal.segments import parse_header, segment_name, shard_name
from leveret.journal.table import FIRST_START, Shard, Unknown
from leveret.pipeline.manifest import Journal, Manifest

FOLDER = "segments"
FETCHED_BYTES = 8 << 20
"""Asked for at once."""


class StoreSegments:
    """Those of a single broker, or of all shards of a cluster, whichever databases these are in."""

    def __init__(self, store: str, archive: str) -> None:
        """Fetch from a store, as files of an archive that this process has for itself."""
        self._store = store
        self.directory = os.path.join(archive, FOLDER)
        self.newest: dict[int, int] = {}
        """By shard: the segment that is being written; known when its segments are fetched."""
        shutil.rmtree(self.directory, ignore_errors=True)
        os.makedirs(self.directory)

    def fetched(self, manifest: Manifest, there: Container[tuple[int, int]]) -> Iterator[str]:
        """The sealed segments that are to be archived; those that are `there` (shard and number) are not fetched."""
        try:
            for shard, url in shards_of(self._store).items():
                table = PostgresTable(url, shard)
                try:
                    yield from self._of_shard(table, shard, manifest.journal(shard), there)
                finally:
                    table.close()
        except Unknown as unknown:
            raise StoreUnreachable(f"a database of the store does not answer: {unknown}; run it again") from unknown

    def _of_shard(
        self, table: PostgresTable, shard: int, journal: Journal, there: Container[tuple[int, int]]
    ) -> Iterator[str]:
        """The sealed segments of one shard."""
        row = table.shard()
        _check(table, shard, row, journal)
        self.newest[shard] = row.segment
        os.makedirs(os.path.join(self.directory, shard_name(shard)), exist_ok=True)
        for number in range(row.oldest, row.segment):
            path = os.path.join(self.directory, shard_name(shard), segment_name(number))
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


def _check(table: PostgresTable, shard: int, row: Shard, journal: Journal) -> None:
    """Refuse the journal of another broker: what the archive has last is there with the same salt, or was removed."""
    if journal.last < row.oldest:
        return
    header = parse_header(table.header(journal.last) or b"", journal.last) if journal.last <= row.segment else None
    if header is None or header.salt != journal.salt:
        raise PreconditionFailed(f"shard {shard} is of another broker than this archive: give each its own archive")


def _fetch(table: PostgresTable, segment: int, path: str) -> bool:
    """Write a segment into a file; False: it has gone meanwhile."""
    offset = FIRST_START
    try:
        with open(path, "wb") as file:
            while piece := table.window(segment, offset, FETCHED_BYTES)[1]:
                file.write(piece)
                offset += len(piece)
    except JournalFailed:
        os.unlink(path)
        if segment >= table.shard().oldest:
            raise
        return False
    return True
