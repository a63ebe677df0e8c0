"""Copying the streams of a shard to another database: files that grow, are cut, renamed and removed meanwhile.

What was copied ahead is brought up to date by what PostgreSQL knows of each row, the transaction that wrote it last:
files with rows of later ones are copied again from there on. Then every file must be there, with as many rows and as
many bytes, and no other; one that is not so, because it was cut or removed, is copied anew.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from psycopg.types.numeric import Int8

from leveret.core.errors import JournalFailed
from leveret.journal.postgres_files import CREATE, EXTERNAL, OF_FILE, REMOVE, stream_table
from leveret.journal.postgres_session import Run, Values

BATCH_BYTES = 4 << 20
"""Fetched and stored at once."""
NOW = "select pg_snapshot_xmin(pg_current_snapshot())::xid::text where %(id)s = 0"
CHANGED = """
    select stream, part, name, min(start) from {table} where age(xmin) <= age(%(since)s::text::xid)
    group by stream, part, name"""
FILES = """
    select stream, part, name, count(*), coalesce(sum(length(data)), 0)::bigint from {table} where %(id)s = 0
    group by stream, part, name"""
STARTS = f"select start, length(data) from {{table}} where {OF_FILE} and start >= %(start)s order by start"
FETCH = f"select start, data from {{table}} where {OF_FILE} and start >= %(start)s and start <= %(last)s order by start"
STORE = """
    insert into {table} select %(stream)s, %(part)s, %(name)s, each.* from
    unnest(%(starts)s::bigint[], %(datas)b::bytea[]) as each
    on conflict (stream, part, name, start) do update set data = excluded.data"""
ALL = {"id": Int8(0)}

Ask = Callable[[str, Values], list[tuple[Any, ...]]]
"""Rows of the source."""
Change = Callable[[Callable[[Run], object]], object]
"""Does something to the target, for as long as the shard is ours there."""


class File(NamedTuple):
    """A file of a partition of a stream."""

    stream: int
    part: int
    name: str

    def values(self, **others: object) -> Values:
        """What names it in a statement."""
        return {"stream": Int8(self.stream), "part": Int8(self.part), "name": self.name, **others}


class StreamCopy:
    """The streams of one shard on their way."""

    def __init__(self, shard: int, source: Ask, target: Ask, change: Change) -> None:
        """Nothing is copied yet."""
        self._table = stream_table(shard)
        self._source = source
        self._target = target
        self._change = change
        self._since: str | None = None

    def copy_ahead(self) -> None:
        """Copy what there is."""
        self._make()
        (self._since,) = self._source(NOW, ALL)[0]
        for file in self._files(self._source):
            self._copy(file, 0)

    def finish(self) -> None:
        """Let the target have what the source has; nobody writes any more."""
        if self._since is None:
            self.copy_ahead()
        for *names, start in self._source(CHANGED.format(table=self._table), {"since": self._since}):
            self._copy(File(*names), start)
        wanted, copied = self._files(self._source), self._files(self._target)
        for file in copied:
            if wanted.get(file) != copied[file]:
                self._remove(file)
        for file in wanted:
            if copied.get(file) != wanted[file]:
                self._copy(file, 0)
        if self._files(self._target) != wanted:
            raise JournalFailed(f"the copy of {self._table} is not like the table: move the shard again")

    def _make(self) -> None:
        self._change(lambda run: [run(each.format(table=self._table), None) for each in (CREATE, EXTERNAL)])

    def _files(self, ask: Ask) -> dict[File, tuple[int, int]]:
        """All files, with the numbers of their rows and bytes."""
        return {File(*row[:3]): (row[3], row[4]) for row in ask(FILES.format(table=self._table), ALL)}

    def _copy(self, file: File, start: int) -> None:
        """Copy the rows of a file from one on; those that go meanwhile are not needed."""
        for first, last in self._batches(file, start):
            values = file.values(start=Int8(first), last=Int8(last))
            rows = self._source(FETCH.format(table=self._table), values)
            stored = file.values(starts=[each for each, _ in rows], datas=[data for _, data in rows])
            if rows:
                self._store(stored)

    def _store(self, values: Values) -> None:
        self._change(lambda run: run(STORE.format(table=self._table), values))

    def _batches(self, file: File, start: int) -> Iterator[tuple[int, int]]:
        """The first and the last row of what is copied at once."""
        batch: list[int] = []
        size = 0
        for row_start, row_bytes in self._source(STARTS.format(table=self._table), file.values(start=Int8(start))):
            batch.append(row_start)
            size += row_bytes
            if size >= BATCH_BYTES:
                yield batch[0], batch[-1]
                batch, size = [], 0
        if batch:
            yield batch[0], batch[-1]

    def _remove(self, file: File) -> None:
        self._change(lambda run: run(REMOVE.format(table=self._table), file.values()))
