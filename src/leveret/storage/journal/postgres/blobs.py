"""Large bodies beside a log in PostgreSQL: a row for each, in a table of the shard.

    leveret_blob_<shard>    | key | data |

They come and go one by one and are large, so a table for all of them is left to vacuum.
"""

from collections.abc import Callable
from typing import Any

from leveret.core.errors import BlobStoreFailed, MessageTooLarge
from leveret.storage.disk import Bytes
from leveret.storage.journal.postgres.session import UNCOMPRESSED, Answer, PostgresSession, Run, Values, tables
from leveret.storage.journal.postgres.statements import SCHEMA_LOCK, UPKEEP_TIMEOUT_MS
from leveret.storage.journal.postgres.table import Unknown

BODY_BYTES_MAX = 512 << 20
"""PostgreSQL holds no value of a GiB, and needs room around one while it takes it."""


def blob_table(shard: int) -> str:
    """The table with the large bodies of a shard."""
    return f"leveret_blob_{shard}"


def create_blobs(run: Run, table: str) -> None:
    """Make that table if need be, in a transaction; one that is there is left alone: altering it waits for readers."""
    run(f"select pg_advisory_xact_lock({SCHEMA_LOCK})", None)
    if not tables(run, table):
        run(f"create table {table} (key text primary key, data bytea not null)", None)
        run(UNCOMPRESSED.format(table=table), None)


class PostgresBlobs:
    """Blobs of one shard; BlobStore of leveret.storage.blobs says what the methods do."""

    def __init__(self, url: str, shard: int) -> None:
        """Use the table of a shard that this process owns; it is made if need be."""
        self._table = blob_table(shard)
        self._session = PostgresSession(url, UPKEEP_TIMEOUT_MS)
        self._done(lambda: self._session.transact(lambda run: create_blobs(run, self._table)))

    def put(self, key: str, body: Bytes) -> None:
        if len(body) > BODY_BYTES_MAX:
            raise MessageTooLarge(f"a body of {len(body)} bytes is over {BODY_BYTES_MAX}: keep it elsewhere (--blobs)")
        self._run(f"insert into {self._table} values (%(key)s, %(data)b)", {"key": key, "data": body})

    def replace(self, key: str, body: Bytes) -> None:
        self._run(f"update {self._table} set data = %(data)b where key = %(key)s", {"key": key, "data": body})

    def get(self, key: str) -> bytes:
        rows = self._run(f"select data from {self._table} where key = %(key)s", {"key": key})
        if not rows:
            raise FileNotFoundError(key)
        return bytes(rows[0][0])

    def delete(self, key: str) -> None:
        self._run(f"delete from {self._table} where key = %(key)s", {"key": key})

    def names(self) -> list[str]:
        return [str(key) for (key,) in self._run(f"select key from {self._table}", {})]

    def close(self) -> None:
        """Nothing is open between two calls."""

    def _run(self, statement: str, values: Values) -> list[tuple[Any, ...]]:
        return self._done(lambda: self._session.run(statement, values)[1])

    def _done(self, work: Callable[[], Answer]) -> Answer:
        """Do something; an unknown outcome is a failure, and leaves at most a blob without a pointer to it."""
        try:
            return work()
        except Unknown as unknown:
            raise BlobStoreFailed(f"PostgreSQL did not keep or give a large body: {unknown}; try again") from unknown
        finally:
            self._session.close()  # a connection is cheap beside a large body, and dear when it lies idle
