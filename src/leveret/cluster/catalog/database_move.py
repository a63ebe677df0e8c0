"""Moving the catalog database of a cluster to another group: see leveret.cluster.catalog.database.

    in the catalog database: lock its tables, read them --> in the target: the same tables, read back and compared,
    committed
                 --> in the catalog database: drop them, say where they are, committed --> in the target: say that it
                 is the catalog database

Every transaction that needs them waits meanwhile. Until the last transaction of the catalog database is committed it
is the catalog database: whatever came into the target before that is replaced by the next attempt.
"""

from typing import Any

from psycopg.types.numeric import Int8

from leveret.cluster.catalog import database
from leveret.cluster.catalog.database import CatalogSession
from leveret.core.errors import PreconditionFailed
from leveret.storage.journal.postgres.session import PostgresSession, Run

TIMEOUT_MS = 60_000
TABLES = (  # in the order in which others lock them
    "leveret_home",
    "leveret_group",
    "leveret_catalog",
    "leveret_catalog_log",
    "leveret_catalog_snapshot",
    "leveret_catalog_reader",
)

Rows = list[tuple[Any, ...]]
Statements = tuple[str, ...]


def move_catalog_database(
    current: CatalogSession, url: str, first_url: str, locks: Statements, creates: Statements
) -> None:
    """Let the database at a URL be the catalog database; `first_url` is that of group 0.

    `locks` are those that are taken to create the tables in the catalog database, `creates` make them in the target.
    """
    target = PostgresSession(url, TIMEOUT_MS)
    try:
        generation = current.transact(lambda run: _moved(run, target, url, first_url, locks, creates))
        target.run(database.HERE, {"generation": Int8(generation)})
    finally:
        target.close()


def _moved(run: Run, target: PostgresSession, url: str, first_url: str, locks: Statements, creates: Statements) -> int:
    """Copy everything, then make sure that no node finds it here any more; give the generation."""
    run(f"set local idle_in_transaction_session_timeout = {TIMEOUT_MS}", None)  # while the other database is asked
    for lock in locks:
        run(lock, None)  # a node that starts just now would make empty tables in place of those that go
    if run(database.NUMBER, None)[1] == target.run(database.NUMBER)[1]:
        raise PreconditionFailed("another node has moved the definitions there meanwhile")
    run(f"lock table {', '.join(TABLES)} in access exclusive mode", None)
    rows = {table: _rows(run, table) for table in TABLES}
    if not any(number == 0 for number, _ in rows["leveret_group"]):
        rows["leveret_group"].insert(0, (0, first_url))  # which was known as the catalog database
    target.transact(lambda there: _copied(there, rows, creates))
    generation: int = 1 + max((row[0] for row in run(database.CATALOG_ROW, None)[1]), default=0)
    run(f"drop table {', '.join(TABLES)}", None)
    run(database.THERE, {"generation": Int8(generation), "url": url})
    return generation


def _copied(run: Run, rows: dict[str, Rows], creates: Statements) -> None:
    """Have these rows, and no others."""
    for statement in (*creates, database.CREATE):
        run(statement, None)
    for table, wanted in rows.items():
        run(f"delete from {table}", None)
        for row in wanted:
            values = {f"c{number}": _typed(value) for number, value in enumerate(row)}
            places = ", ".join(f"%({name})s" for name in values)
            run(f"insert into {table} values ({places})", values)
        if _rows(run, table) != wanted:
            raise PreconditionFailed(f"{table} is not the same after it was copied: nothing was moved")


def _typed(value: Any) -> Any:
    return Int8(value) if isinstance(value, int) else value


def _rows(run: Run, table: str) -> Rows:
    return run(f"select * from {table} order by 1", None)[1]
