"""A connection to PostgreSQL that is made when it is needed, and given up after any error.

A commit whose wait for a standby was cancelled is reported as done, with nothing but a warning (01000): the row is
there, and a failover may take it away again. So a warning counts as an unknown outcome here, as every error does
that leaves it open. A driver's own timeout would cancel in just that way; a peer that is gone is found out by TCP.

The bytes of a segment are rows of a table: each row has where it begins, and what lies there. `data` is stored
uncompressed outside of the row, so that a part of it can be read alone.
"""

import os
import re
import select
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg import errors, pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import Int8

from leveret.clock import ticks_us
from leveret.core.errors import InvalidArgument, JournalFailed
from leveret.storage.disk import Bytes
from leveret.storage.journal.postgres.table import Unknown
from leveret.storage.journal.postgres_figures import FIGURES

SETTINGS: dict[str, Any] = {
    "application_name": "leveret",
    "client_encoding": "UTF8",
    "connect_timeout": 5,
    "target_session_attrs": "read-write",
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5_000,
}
"""What a URL may say otherwise.

Where packets are dropped, each attempt of TCP comes twice as late as the one before: after an outage it may be silent
for as long as that has lasted. So it is given up after five seconds; a new connection is made within two or three.
"""
NO_ROOM = frozenset({"53100", "53200", "25006"})
"""SQLSTATE of a full disk, of no memory, of a database that is only to be read: publishers need not wait for it."""
REFUSALS = ("22", "23", "3D", "3F", "42")
"""Classes of SQLSTATE that say that the statement was not done and never will be: waiting does not help."""
NUMBERS_RUN_OUT = frozenset({"varsup.c", "multixact.c"})
"""Files of PostgreSQL that warn with every statement when vacuum is far behind: it was done nevertheless."""
IDLE_MS = 10_000
"""For a client that stands still in a transaction, or whose machine is gone: others wait for its locks."""
# In any other isolation than this one a change that had to wait for another would not see what that one did. And a
# role whose warnings are hidden would not hear that the wait for a standby was cancelled.
OURS = """set statement_timeout = {statement_ms}; set idle_in_transaction_session_timeout = {idle_ms};
    set default_transaction_isolation = 'read committed'; set client_min_messages = warning"""
DURABLE = """select set_config('synchronous_commit', 'on', false)
    where current_setting('synchronous_commit') in ('off', 'local', 'remote_write')"""

QUOTED = re.compile('".*"')

Values = dict[str, Any]
Result = tuple[int, list[tuple[Any, ...]]]
"""How many rows a statement touched, and those that it gave."""
Run = Callable[[str, Values | None], Result]
Answer = TypeVar("Answer")
BINARY = pq.Format.BINARY
DONE = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)

Connection = psycopg.Connection[tuple[Any, ...]]
Value = bytes | bytearray | memoryview


class PreparedStatement:
    """A statement that is done again and again, by libpq itself, without what a cursor does for each.

    A commit batch of 2 KB took 190 us of CPU by a cursor and 60 us here, on a busy machine; all others wait for the
    interpreter meanwhile. A result is one only when the server is ready for the next statement: it commits after it
    has given the rows. Values are $1, $2 and so on, in binary.
    """

    def __init__(self, connection: Connection, name: str, text: str, types: Sequence[int]) -> None:
        """Prepare a statement under a name of its own; `types` are the oids of its values."""
        self.name, self.text = name, text
        self._libpq = connection.pgconn
        self._name = name.encode()
        self._formats = [BINARY] * len(types)
        self._poll = select.poll()
        self._libpq.send_prepare(self._name, text.encode(), types)
        self._finish()

    def run(self, values: Sequence[Value]) -> int:
        """Do it; how many rows it gives."""
        self._libpq.send_query_prepared(self._name, values, self._formats, BINARY)
        return self._finish()

    def _finish(self) -> int:
        """Wait until all is sent, answered and committed; a signal handler that raises ends that, too."""
        libpq, rows = self._libpq, 0
        while libpq.flush():
            self._wait(select.POLLIN | select.POLLOUT)
        while True:
            while libpq.is_busy():
                self._wait(select.POLLIN)
            result = libpq.get_result()
            if result is None:
                return rows
            if result.status not in DONE:
                raise errors.error_from_result(result)
            rows = result.ntuples

    def _wait(self, events: int) -> None:
        self._poll.register(self._libpq.socket, events)
        self._poll.poll()
        self._libpq.consume_input()


def conninfo(url: str) -> str:
    """What a driver connects by: a URL, and our settings where it says nothing."""
    try:
        return make_conninfo("", **{**SETTINGS, **conninfo_to_dict(url)})
    except psycopg.Error as error:
        what = QUOTED.sub("...", _line(error))  # that is what cannot be read, which may be a password
        raise InvalidArgument(f"the URL of the store cannot be read: {what}") from None


class PostgresSession:
    """One connection, for one statement at a time."""

    def __init__(self, url: str, timeout_ms: int) -> None:
        """Nothing is connected yet; `timeout_ms` bounds a statement, 0 is for ever."""
        self._target = conninfo(url)
        self._timeout_ms = timeout_ms
        self._mutex = threading.Lock()
        self._connection: Connection | None = None
        self._lost = False
        self._warning: str | None = None
        self._began_us = 0
        self._prepared: PreparedStatement | None = None
        self._repeats = 0

    def run(self, statement: str, values: Values | None = None) -> Result:
        """Do one statement in a transaction of its own."""
        return self._done(lambda connection: _result(connection, statement, values))

    def repeat(self, statement: str, types: Sequence[int], values: Sequence[Value]) -> int:
        """Do one statement in a transaction of its own, mostly the same as the last time; how many rows it gives."""
        return self._done(lambda connection: self._repeated(connection, statement, types).run(values))

    def _repeated(self, connection: Connection, statement: str, types: Sequence[int]) -> PreparedStatement:
        """The statement, prepared; the one before it is forgotten."""
        last = self._prepared
        if last is None or last.text != statement:
            self._repeats += 1
            self._prepared = PreparedStatement(connection, f"leveret_{self._repeats}", statement, types)
            if last is not None:
                connection.execute(f"deallocate {last.name}".encode())
        assert self._prepared is not None, "it is prepared by now"
        return self._prepared

    def transact(self, work: Callable[[Run], Answer]) -> Answer:
        """Do statements in one transaction: `work` gets what runs each of them."""

        def done(connection: Connection) -> Answer:
            with connection.transaction():
                return work(lambda statement, values: _result(connection, statement, values))

        return self._done(done)

    def _done(self, work: Callable[[Connection], Answer]) -> Answer:
        """Do something on the connection, one after the other."""
        with FIGURES.using(self._mutex):
            self._began_us = ticks_us()
            return self._certain(work)

    def _certain(self, work: Callable[[Connection], Answer]) -> Answer:
        """Do something on the connection; give it up unless it was certainly done."""
        self._warning = None
        try:
            answer = work(self._connected())
        except psycopg.Error as error:
            FIGURES.failed()
            self._lost = self._connection is not None
            self._drop()
            state = error.sqlstate or ""
            if state.startswith(REFUSALS):
                raise JournalFailed(f"PostgreSQL refuses what the store needs: {_line(error)}") from error
            raise Unknown(_line(error), state in NO_ROOM) from error
        except BaseException:
            self._drop()
            raise
        if self._warning is not None:
            self._drop()
            raise Unknown(self._warning)
        return answer

    def cut(self, after_us: int = 0) -> None:
        """Shut the socket down under the thread that waits at it; PostgreSQL is not asked to cancel anything.

        A caller that has not waited for so long yet is not interrupted.
        """
        connection = self._connection
        if connection is None or connection.closed or ticks_us() - self._began_us < after_us:
            return
        try:
            with socket.socket(fileno=os.dup(connection.fileno())) as peer:
                peer.shutdown(socket.SHUT_RDWR)
        except (OSError, psycopg.Error):
            return  # it has just been closed

    def close(self) -> None:
        """End the connection, after the thread that uses it."""
        with self._mutex:
            self._drop()

    def end(self) -> None:
        """End the connection under the thread that uses it."""
        self.cut()
        self.close()

    def _connected(self) -> Connection:
        if self._connection is None:
            connection = psycopg.connect(self._target, autocommit=True)
            self._connection = connection
            FIGURES.connected(again=self._lost)
            self._lost = False
            connection.add_notice_handler(self._notice)
            connection.execute(OURS.format(statement_ms=self._timeout_ms, idle_ms=IDLE_MS).encode())
            connection.execute(DURABLE.encode())
        return self._connection

    def _notice(self, notice: psycopg.errors.Diagnostic) -> None:
        """Remember a warning, unless it is about something else than what was done."""
        if (notice.sqlstate or "").startswith("01") and notice.source_file not in NUMBERS_RUN_OUT:
            self._warning = notice.message_primary

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = self._prepared = None
            FIGURES.closed()


def _result(connection: Connection, statement: str, values: Values | None) -> Result:
    """One statement on a connection; those without values change tables and are not prepared."""
    cursor = connection.execute(statement.encode(), values, prepare=values is not None, binary=values is not None)
    return cursor.rowcount, cursor.fetchall() if cursor.description else []


def _line(error: psycopg.Error) -> str:
    """What an error says, on one line."""
    return " ".join((error.diag.message_primary or str(error)).split()) or type(error).__name__


PART_BYTES = 8 << 20
"""In one row of something that can be cut: a value must not be too large."""
READ_TIMEOUT_MS = 10_000
"""Reads are given up after a while: they hold no promise."""

DROP_WAIT_MS = 200
"""For others who use a table that is to go: who comes after us in its line waits meanwhile, and so does a takeover."""

UNCOMPRESSED = "alter table {table} alter data set storage external"
WINDOW = """
    select substring(data from greatest(%(start)s - start, 0)::int + 1 for %(size)s::int) from {table}
    where start >= (select max(start) from {table} where start <= %(start)s) and start < %(start)s + %(size)s
    order by start"""
END = "select start + length(data) from {table} order by start desc limit 1"
TABLES = """
    select tablename::text from pg_tables where schemaname = current_schema() and tablename like %(pattern)s"""


def window(run: Run, table: str, start: int, size: int) -> bytes:
    """At least `size` bytes from a place on, if the table has them."""
    rows = run(WINDOW.format(table=table), {"start": Int8(start), "size": Int8(size)})[1]
    return b"".join(row[0] for row in rows)


def end(run: Run, table: str) -> int:
    """Where the last row ends."""
    rows = run(END.format(table=table), {})[1]
    return int(rows[0][0]) if rows else 0


def tables(run: Run, pattern: str) -> list[str]:
    """The tables with names like a pattern, in which an underscore stands for itself."""
    return [name for (name,) in run(TABLES, {"pattern": pattern.replace("_", "\\_")})[1]]


def drop_soon(run: Run, table: str) -> None:
    """Drop a table, in a transaction; Unknown when others use it for too long."""
    run(f"set local lock_timeout = {DROP_WAIT_MS}", None)
    run(f"drop table if exists {table}", None)


def parts(whole: Sequence[Bytes]) -> Iterator[memoryview]:
    """The same bytes in pieces that fit into a row."""
    for each in whole:
        view = memoryview(each)
        yield from (view[start : start + PART_BYTES] for start in range(0, len(view), PART_BYTES))
