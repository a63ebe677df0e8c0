"""Files in PostgreSQL, for streams beside a log that is there: a row for whatever was made durable at once.

    leveret_stream_<shard>    | stream | part | name | start | data |

As with the log, nothing is written by who does not own the shard any more, and nothing can be under way when another
one has taken over: the row of the shard is held from the look at the epoch to the commit.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from psycopg.types.numeric import Int8

from leveret.journal.disk import Bytes
from leveret.journal.postgres import READ_TIMEOUT_MS, UPKEEP_TIMEOUT_MS
from leveret.journal.postgres_session import Run, Session, Values
from leveret.journal.table import Unknown
from leveret.journal.table_files import Place

PATIENCE_S = 10.0  # for a database that does not answer; then the shard is given up, as after an error of a disk
RETRY_S = 0.2

CREATE = """
    create table if not exists {table} (
        stream int8, part int8, name text, start int8, data bytea not null, primary key (stream, part, name, start))"""
EXTERNAL = "alter table {table} alter data set storage external"
KNOWN = "select to_regclass(%(table)s) is not null"
OWNED = "select id from leveret_shard where id = %(shard)s and epoch = %(epoch)s for share"
OF_FILE = "stream = %(stream)s and part = %(part)s and name = %(name)s"
APPEND = """
    with owned as (select id from leveret_shard where id = %(shard)s and epoch = %(epoch)s for share)
    insert into {table} select %(stream)s, %(part)s, %(name)s, %(start)s, %(data)b from owned
    on conflict (stream, part, name, start) do update set data = excluded.data"""
SIZES = """
    select name, max(start + length(data)) from {table} where stream = %(stream)s and part = %(part)s group by name"""
WINDOW = f"""
    select substring(data from greatest(%(start)s - start, 0)::int + 1 for (%(end)s - greatest(%(start)s, start))::int)
    from {{table}} where {OF_FILE} and start < %(end)s
    and start >= coalesce((select max(start) from {{table}} where {OF_FILE} and start <= %(start)s), 0)
    order by start"""
CUT = (
    f"delete from {{table}} where {OF_FILE} and start >= %(size)s",
    f"""update {{table}} set data = substring(data for (%(size)s - start)::int)
    where {OF_FILE} and start + length(data) > %(size)s""",
)
REMOVE = f"delete from {{table}} where {OF_FILE}"
RENAME = (
    "delete from {table} where stream = %(stream)s and part = %(part)s and name = %(new)s",
    f"update {{table}} set name = %(new)s where {OF_FILE}",
)
STREAMS = "select distinct stream from {table}"
REMOVE_STREAM = "delete from {table} where stream = %(stream)s"


class PostgresFiles:
    """The files of the streams of one shard that this process owns; Files says what the methods do."""

    def __init__(self, url: str, shard: int, epoch: int) -> None:
        """Use the table of the shard, which is made with its first stream."""
        self._table = f"leveret_stream_{shard}"
        self._values: Values = {"shard": Int8(shard), "epoch": Int8(epoch)}
        self._writing = Session(url, UPKEEP_TIMEOUT_MS)
        self._reading = Session(url, READ_TIMEOUT_MS)
        self._made = False

    def make(self) -> None:
        """See Files."""
        if not self._made:
            for statement in (CREATE, EXTERNAL):
                self._tried(partial(self._writing.run, statement.format(table=self._table)))
            self._made = True

    def sizes(self, place: Place) -> dict[str, int]:
        """See Files."""
        return {str(name): int(size) for name, size in self._read(SIZES, _of(place))}

    def read(self, place: Place, name: str, start: int, end: int) -> bytes:
        """See Files."""
        values = {**_of(place), "name": name, "start": Int8(start), "end": Int8(end)}
        return b"".join(row[0] for row in self._read(WINDOW, values))

    def append(self, place: Place, name: str, start: int, data: Bytes) -> None:
        """See Files."""
        values = {**self._values, **_of(place), "name": name, "start": Int8(start), "data": bytes(data)}
        statement = APPEND.format(table=self._table)
        if self._tried(lambda: self._writing.run(statement, values)[0]) == 0:
            raise _fenced()

    def cut(self, place: Place, name: str, size: int) -> None:
        """See Files."""
        self._change(CUT, {**_of(place), "name": name, "size": Int8(size)})

    def rename(self, place: Place, name: str, new: str) -> None:
        """See Files."""
        self._change(RENAME, {**_of(place), "name": name, "new": new})

    def remove(self, place: Place, name: str) -> None:
        """See Files."""
        self._change((REMOVE,), {**_of(place), "name": name})

    def streams(self) -> list[int]:
        """See Files."""
        try:
            if not self._read(KNOWN, {"table": self._table})[0][0]:
                return []
            return sorted(int(stream) for (stream,) in self._read(STREAMS, {}))
        finally:
            self._reading.close()  # most shards have none, and need it no more

    def remove_stream(self, stream: int) -> None:
        """See Files."""
        self._change((REMOVE_STREAM,), {"stream": Int8(stream)})

    def close(self) -> None:
        """See Files."""
        for session in (self._writing, self._reading):
            session.close()

    def _read(self, statement: str, values: Values) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._tried(
            lambda: self._reading.run(statement.format(table=self._table), values)[1]
        )
        return found

    def _change(self, statements: tuple[str, ...], values: Values) -> None:
        """Do something in one transaction, if the shard is still ours; once more does no harm."""

        def work(run: Run) -> bool:
            if not run(OWNED, self._values)[1]:
                return False
            for statement in statements:
                run(statement.format(table=self._table), values)
            return True

        if not self._tried(lambda: self._writing.transact(work)):
            raise _fenced()

    def _tried(self, work: Callable[[], Any]) -> Any:
        """Try until the outcome is known; OSError when it is not for too long."""
        until_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                return work()
            except Unknown as unknown:
                if time.monotonic() > until_s:
                    raise OSError(f"PostgreSQL did not answer for {PATIENCE_S:g} s: {unknown}") from unknown
            time.sleep(RETRY_S)


def _of(place: Place) -> Values:
    return {"stream": Int8(place.stream), "part": Int8(place.part)}


def _fenced() -> OSError:
    return OSError("another process has taken over the store: this one writes nothing to it any more")
