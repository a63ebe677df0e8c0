"""The catalog database of a cluster: the database that has its definitions, the list of its groups, and where shards
are.

    leveret_seat    | id | generation | url |       in every database that is it, or was; no row: it never moved
                                                    url: where the catalog database is; null: here

Nodes are started with the database that is the catalog database, or once was, and follow from there. The node that
moves the catalog database drops what was copied in the transaction that says where it is now: a statement that comes
too late does not find its table, looks here, and is done in the right place. The generation is raised by each move, so
that of two databases that name each other the later one counts.

How the catalog database is moved to another group:

    in the catalog database: lock its tables, read them --> in the target: the same tables, read back and compared,
    committed
                 --> in the catalog database: drop them, say where they are, committed --> in the target: say that it
                 is the catalog database

Every transaction that needs them waits meanwhile. Until the last transaction of the catalog database is committed it
is the catalog database: whatever came into the target before that is replaced by the next attempt.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from psycopg.types.numeric import Int8

from leveret.core.errors import JournalFailed, PreconditionFailed
from leveret.storage.journal.postgres.session import Connection, PostgresSession, Run, conninfo

CREATE = "create table if not exists leveret_seat (id int primary key, generation bigint not null, url text)"
KNOWN = "select to_regclass('leveret_seat') is not null, to_regclass('leveret_group_of') is not null"
CATALOG_ROW = "select generation, url from leveret_seat where id = 0"
NUMBER = "select number from leveret_group_of where id = 0"
HERE = """
    insert into leveret_seat as seat values (0, %(generation)s, null)
    on conflict (id) do update set generation = excluded.generation, url = null
    where seat.generation < excluded.generation"""
THERE = """
    insert into leveret_seat values (0, %(generation)s, %(url)s)
    on conflict (id) do update set generation = excluded.generation, url = excluded.url"""

Answer = TypeVar("Answer")


class CatalogPointer(NamedTuple):
    """What a database knows of the catalog database."""

    generation: int
    url: str | None


class CatalogSession(PostgresSession):
    """A session with the catalog database, wherever it goes."""

    def prepare(self, statements: Sequence[str]) -> None:
        """Find the catalog database, and create tables there; the first statement keeps others from doing so
        meanwhile.
        """
        while pointer := self.transact(lambda run: _prepared(run, statements)):
            with self._mutex:
                self._follow(pointer)

    def _certain(self, work: Callable[[Connection], Answer]) -> Answer:
        """Do something; what was refused, as there are no such tables any more, is done where they are now."""
        while True:
            try:
                return super()._certain(work)
            except JournalFailed:
                pointer = super()._certain(_look)
                if pointer is None or pointer.url is None:
                    raise
            self._follow(pointer)

    def _follow(self, pointer: CatalogPointer) -> None:
        """Go where the catalog database is, and let that database know."""
        assert pointer.url is not None, "it leads elsewhere"
        self._drop()
        self._target = conninfo(pointer.url)
        super()._certain(lambda connection: connection.execute(CREATE.encode()))
        values = {"generation": Int8(pointer.generation)}
        super()._certain(lambda connection: connection.execute(HERE.encode(), values))


def catalog_database_of(url: str, timeout_ms: int) -> str:
    """Where the catalog database is, for those who only read; a database that is or was the catalog database knows."""
    generation = 0
    while True:
        session = PostgresSession(url, timeout_ms)
        try:
            known = session.run(KNOWN)[1][0][0]
            found = [CatalogPointer(*row) for row in session.run(CATALOG_ROW)[1]] if known else []
        finally:
            session.close()
        if not found or found[0].url is None or found[0].generation <= generation:
            return url
        generation, url = found[0].generation, found[0].url


def _look(connection: Connection) -> CatalogPointer | None:
    """What a database says of the catalog database."""
    known = connection.execute(KNOWN.encode()).fetchone()
    row = connection.execute(CATALOG_ROW.encode()).fetchone() if known is not None and known[0] else None
    return None if row is None else CatalogPointer(*row)


def _prepared(run: Run, statements: Sequence[str]) -> CatalogPointer | None:
    """Create tables, or say where to do so."""
    lock, *creates = statements
    run(lock, None)
    run(CREATE, None)
    found = [CatalogPointer(*row) for row in run(CATALOG_ROW, None)[1]]
    if found and found[0].url is not None:
        return found[0]
    marked = run(KNOWN, None)[1][0][1]
    numbers = [row[0] for row in run(NUMBER, None)[1]] if marked else []
    if not found and any(numbers):
        raise PreconditionFailed(
            f"the store is group {numbers[0]} of a cluster, without its definitions: give the database that has them"
        )
    for each in creates:
        run(each, None)
    return None


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
        target.run(HERE, {"generation": Int8(generation)})
    finally:
        target.close()


def _moved(run: Run, target: PostgresSession, url: str, first_url: str, locks: Statements, creates: Statements) -> int:
    """Copy everything, then make sure that no node finds it here any more; give the generation."""
    run(f"set local idle_in_transaction_session_timeout = {TIMEOUT_MS}", None)  # while the other database is asked
    for lock in locks:
        run(lock, None)  # a node that starts just now would make empty tables in place of those that go
    if run(NUMBER, None)[1] == target.run(NUMBER)[1]:
        raise PreconditionFailed("another node has moved the definitions there meanwhile")
    run(f"lock table {', '.join(TABLES)} in access exclusive mode", None)
    rows = {table: _rows(run, table) for table in TABLES}
    if not any(number == 0 for number, _ in rows["leveret_group"]):
        rows["leveret_group"].insert(0, (0, first_url))  # which was known as the catalog database
    target.transact(lambda there: _copied(there, rows, creates))
    generation: int = 1 + max((row[0] for row in run(CATALOG_ROW, None)[1]), default=0)
    run(f"drop table {', '.join(TABLES)}", None)
    run(THERE, {"generation": Int8(generation), "url": url})
    return generation


def _copied(run: Run, rows: dict[str, Rows], creates: Statements) -> None:
    """Have these rows, and no others."""
    for statement in (*creates, CREATE):
        run(statement, None)
    for table, wanted in rows.items():
        run(f"delete from {table}", None)
        for row in wanted:
            typed = [Int8(value) if isinstance(value, int) else value for value in row]
            values = {f"c{number}": value for number, value in enumerate(typed)}
            places = ", ".join(f"%({name})s" for name in values)
            run(f"insert into {table} values ({places})", values)
        if _rows(run, table) != wanted:
            raise PreconditionFailed(f"{table} is not the same after it was copied: nothing was moved")


def _rows(run: Run, table: str) -> Rows:
    return run(f"select * from {table} order by 1", None)[1]
