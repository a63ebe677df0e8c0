"""The log of the catalog: every change of definitions of a cluster, in the one order in which all nodes make them.

    version   writer               changes
    1         a, 1f0c...           [virtual host "shop"]
    2         b, 77d2...           [queue "orders" in shard 5, binding to it]

A writer says which version it has seen; if there is a newer one nothing is appended. An entry whose outcome is
not known is known again by its writer. A snapshot takes the place of all entries before its version.

It is kept in PostgreSQL:

    leveret_catalog             | id | version |                      one row: each append raises it by one
    leveret_catalog_log         | version | writer | changes |
    leveret_catalog_snapshot    | version | writer | changes |        one row, once there is one
    leveret_catalog_reader      | name | version | beats |            nodes that serve reads: see read_lease.py

The version is compared inside of the statement that appends, so of two nodes that saw the same version one appends
nothing. Statements run in threads of their own: the driver waits, and a node that opens many shards at once keeps the
others busy, but must not forget to look what has changed.
"""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

from psycopg.types.numeric import Int8

from leveret.cluster.catalog.changes import DefinitionChange
from leveret.cluster.catalog.database import CatalogSession
from leveret.cluster.catalog.read_lease import CatalogReader
from leveret.core.errors import TooMany, Unreachable
from leveret.storage.journal.postgres.session import Values
from leveret.storage.journal.postgres.table import Unknown

ENTRY_BYTES_MAX = 64 << 20  # all nodes hold one in memory, and so does the database
SNAPSHOT_BYTES_MAX = 512 << 20  # PostgreSQL holds no value of a GiB, and needs room around one while it takes it


class LogEntry(NamedTuple):
    """One version."""

    version: int
    writer: str
    changes: list[DefinitionChange]


class Snapshot(NamedTuple):
    """All definitions at a version, and who wrote that one."""

    version: int
    writer: str
    changes: list[DefinitionChange]


class CatalogLog(Protocol):
    """Where entries are kept, and who reads them. Whatever raises Unreachable may have been done, or not."""

    async def append(self, entry: LogEntry) -> bool:
        """Append the entry if its version is the next one; it is durable then."""

    async def barrier(self) -> int:
        """The version now, with all that led to it durable: later reads do not see what could still be lost."""

    async def read(self, version: int, limit: int) -> list[LogEntry]:
        """Entries from a version on, that one included, if they are still there."""

    async def snapshot(self) -> Snapshot | None:
        """The newest snapshot."""

    async def compact(self, snapshot: Snapshot) -> None:
        """Keep a snapshot in place of the entries before it, unless there is a newer one; may raise TooMany."""

    async def renew_row(self, reader: CatalogReader) -> list[CatalogReader]:
        """Make or renew the row of a reader; give all rows, as they were before or are now."""

    async def readers(self) -> list[CatalogReader]:
        """All rows."""

    async def forget(self, reader: CatalogReader) -> None:
        """Remove a row, unless it was renewed since it was so."""


def packed(changes: list[DefinitionChange], bytes_max: int) -> bytes:
    """Changes as a log keeps them, if they are not too many."""
    data = json.dumps([[what, payload.decode()] for what, payload in changes], separators=(",", ":")).encode()
    if len(data) > bytes_max:
        raise TooMany(f"{len(changes)} definitions change at once, {len(data)} bytes: do it in smaller steps")
    return data


def unpacked(data: bytes) -> list[DefinitionChange]:
    """The reverse."""
    return [DefinitionChange(what, payload.encode()) for what, payload in json.loads(data)]


READ_TIMEOUT_MS = 10_000
SCHEMA_LOCK = 0x6C657666
"""Of those who create the tables at the same time."""
CREATE = (
    f"select pg_advisory_xact_lock({SCHEMA_LOCK})",
    "create table if not exists leveret_catalog (id int primary key, version bigint not null) with (fillfactor = 50)",
    """create table if not exists leveret_catalog_log (
        version bigint primary key, writer text not null, changes bytea not null)""",
    """create table if not exists leveret_catalog_snapshot (
        id int primary key, version bigint not null, writer text not null, changes bytea not null)""",
    """create table if not exists leveret_catalog_reader (
        name text primary key, version bigint not null, beats bigint not null) with (fillfactor = 50)""",
    "insert into leveret_catalog values (0, 0) on conflict (id) do nothing",
)
APPEND = """
    with seen as (
        update leveret_catalog set version = %(version)s where id = 0 and version = %(version)s - 1 returning id)
    insert into leveret_catalog_log select %(version)s, %(writer)s, %(changes)b from seen"""
BARRIER = "update leveret_catalog set version = version where id = 0 returning version"
READ = """
    select version, writer, changes from leveret_catalog_log where version >= %(version)s order by version
    limit %(limit)s"""
SNAPSHOT = "select version, writer, changes from leveret_catalog_snapshot where id = 0"
KEEP = """
    insert into leveret_catalog_snapshot as kept values (0, %(version)s, %(writer)s, %(changes)b)
    on conflict (id) do update set version = excluded.version, writer = excluded.writer, changes = excluded.changes
    where kept.version < excluded.version"""
REMOVE = """
    delete from leveret_catalog_log
    where version < least(%(version)s, (select version from leveret_catalog_snapshot where id = 0))"""

RENEW_ROW = """
    with beat as (
        insert into leveret_catalog_reader values (%(name)s, %(version)s, %(beats)s)
        on conflict (name) do update set version = excluded.version, beats = excluded.beats)
    select name, version, beats from leveret_catalog_reader"""
READERS = "select name, version, beats from leveret_catalog_reader"
FORGET = "delete from leveret_catalog_reader where name = %(name)s and beats = %(beats)s"


class PostgresLog:
    """The log at a URL; CatalogLog of leveret.cluster.catalog.log says what the methods do."""

    def __init__(self, url: str) -> None:
        """Connections are made when they are needed, and the tables if need be."""
        self._log = CatalogSession(url, 0)  # an append waits for as long as it takes
        self._reading = CatalogSession(url, READ_TIMEOUT_MS)
        self._created = False
        self._threads = ThreadPoolExecutor(2, "leveret-catalog")  # one for each session

    async def append(self, entry: LogEntry) -> bool:
        changes = packed(entry.changes, ENTRY_BYTES_MAX)
        values = {"version": Int8(entry.version), "writer": entry.writer, "changes": changes}
        return (await self._run(self._log, APPEND, values))[0] == 1

    async def barrier(self) -> int:
        version: int = (await self._run(self._log, BARRIER, {}))[1][0][0]
        return version

    async def read(self, version: int, limit: int) -> list[LogEntry]:
        rows = (await self._run(self._reading, READ, {"version": Int8(version), "limit": Int8(limit)}))[1]
        return [LogEntry(found, writer, unpacked(changes)) for found, writer, changes in rows]

    async def snapshot(self) -> Snapshot | None:
        rows = (await self._run(self._reading, SNAPSHOT, {}))[1]
        return Snapshot(rows[0][0], rows[0][1], unpacked(rows[0][2])) if rows else None

    async def compact(self, snapshot: Snapshot) -> None:
        version, changes = {"version": Int8(snapshot.version)}, packed(snapshot.changes, SNAPSHOT_BYTES_MAX)
        await self._run(self._log, KEEP, {**version, "writer": snapshot.writer, "changes": changes})
        await self._run(self._log, REMOVE, version)

    async def renew_row(self, reader: CatalogReader) -> list[CatalogReader]:
        values = {"name": reader.name, "version": Int8(reader.version), "beats": Int8(reader.renewals)}
        return [CatalogReader(*row) for row in (await self._run(self._reading, RENEW_ROW, values))[1]]

    async def readers(self) -> list[CatalogReader]:
        return [CatalogReader(*row) for row in (await self._run(self._reading, READERS, {}))[1]]

    async def forget(self, reader: CatalogReader) -> None:
        await self._run(self._reading, FORGET, {"name": reader.name, "beats": Int8(reader.renewals)})

    async def close(self) -> None:
        """End the connections; no caller waits for an answer any more."""
        for session in (self._log, self._reading):
            await asyncio.to_thread(session.end)
        self._threads.shutdown(wait=False)

    async def _run(self, session: CatalogSession, statement: str, values: Values) -> tuple[int, list[tuple[Any, ...]]]:
        """Do one statement, and first of all create the tables."""

        def done() -> tuple[int, list[tuple[Any, ...]]]:
            if not self._created:
                self._log.prepare(CREATE)
                self._created = True
            return session.run(statement, values)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, done)
        except Unknown as unknown:
            raise Unreachable(f"the catalog in PostgreSQL does not answer: {unknown}") from unknown
