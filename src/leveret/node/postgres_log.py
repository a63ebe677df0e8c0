"""The log of changes in PostgreSQL: a row for each version, which only one node can insert."""

import asyncio

from leveret.core.errors import StoreUnreachable
from leveret.journal.postgres_session import Session
from leveret.journal.table import Unknown
from leveret.node.changelog import Entry

TIMEOUT_MS = 10_000
READ_MAX = 1_000
SCHEMA_LOCK = 0x6C657663
CREATE = "create table if not exists leveret_change (version bigint primary key, payload bytea not null)"
APPEND = """
    insert into leveret_change select %(version)s, %(payload)b
    where %(version)s = 1 + (select coalesce(max(version), 0) from leveret_change) on conflict do nothing"""
READ = f"""
    select version, payload from leveret_change where version > %(after)s order by version limit {READ_MAX}"""


class PostgresLog:
    """See ChangeLog."""

    def __init__(self, url: str) -> None:
        """Connect when something is asked."""
        self._session = Session(url, TIMEOUT_MS)
        self._made = False

    async def append(self, entry: Entry) -> bool:
        """Insert a row; whether one that got no answer is there is seen by reading it."""
        try:
            return await asyncio.to_thread(self._append, entry)
        except Unknown:
            found = await self.read(entry.version - 1)
            return bool(found) and found[0] == entry

    async def read(self, after: int) -> list[Entry]:
        """The next rows."""
        try:
            return await asyncio.to_thread(self._read, after)
        except Unknown as error:
            raise StoreUnreachable(f"PostgreSQL does not tell the definitions: {error}") from None

    def _append(self, entry: Entry) -> bool:
        count, _ = self._session.run(APPEND, {"version": entry.version, "payload": entry.payload})
        return count == 1

    def _read(self, after: int) -> list[Entry]:
        if not self._made:
            self._session.run_all([(f"select pg_advisory_xact_lock({SCHEMA_LOCK})", None), (CREATE, None)])
            self._made = True
        return [Entry(version, bytes(payload)) for version, payload in self._session.run(READ, {"after": after})[1]]

    def close(self) -> None:
        """Let go of the connection."""
        self._session.close()
