"""Sessions on databases and roles that are not set up as most are."""

import threading
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from leveret.core.errors import InvalidArgument, UnknownFormat
from leveret.embedded.broker import open
from leveret.storage.journal.postgres import session as postgres_session
from leveret.storage.journal.postgres.session import PostgresSession, Run
from leveret.storage.journal.postgres.statements import PostgresTable
from leveret.storage.journal.postgres.table import Unknown
from leveret.storage.journal.postgres_figures import ConnectionFigures
from tests.postgres_server import PostgresServer
from tests.storage.journal.table_world import TableWorld
from tests.waiting import PATIENCE_S, wait_until

WAITS = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%{}%'"


def test_a_takeover_sees_what_was_under_way_whatever_isolation_is_the_default(
    postgres: PostgresServer, store_url: str
) -> None:
    url = store_url.replace("options=", "options=-cdefault_transaction_isolation%3Drepeatable%5C%20read%20")
    first = TableWorld(PostgresTable(url), threaded=True)
    first.durably(b"before")
    opened: list[TableWorld] = []
    opening = threading.Thread(target=lambda: opened.append(TableWorld(PostgresTable(url))))
    with psycopg.connect(store_url) as other:
        other.execute("select 1 from leveret_shard for update")
        seq, told = first.begin(b"under way")
        postgres.wait_for(WAITS.format("leveret_segment_0_1"))
        opening.start()
        postgres.wait_for(WAITS.format("set epoch"))
        other.rollback()
    opening.join(PATIENCE_S)
    assert told.wait(PATIENCE_S)
    assert seq in opened[0].state.queues[1], "what was confirmed is there for the next owner"
    first.kill()
    opened[0].kill()


def test_a_database_without_an_encoding(postgres: PostgresServer) -> None:
    postgres.sql("create database ascii encoding 'SQL_ASCII' template template0")
    url = postgres.url().replace("///postgres", "///ascii")
    for _ in range(2):
        with open(url) as broker:
            broker.queue("größe").send("ß")
            broker.stream("ström").send("ß")
    with open(url) as broker:
        assert [message.body for message in broker.queue("größe").receive(10)] == ["ß", "ß"]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:secret@[::1/db",
        "postgresql://me:secret%@host/db",
        "postgresql://me:secret@host/d%zz",
        "postgresql://me:a secret@host/db",
        "postgresql://host/db?password=a%20%22secret%zz",
    ],
)
def test_a_password_is_not_repeated(url: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        PostgresSession(url, 0)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(("source", "harmless"), [("varsup.c", True), ("multixact.c", True), ("syncrep.c", False)])
def test_transaction_numbers_that_run_out_leave_no_doubt(store_url: str, source: str, harmless: bool) -> None:
    session = PostgresSession(store_url, 0)
    warning: Any = SimpleNamespace(sqlstate="01000", source_file=source, message_primary="a warning")

    def warned(run: object) -> str:
        session._notice(warning)
        return "done"

    try:
        if harmless:
            assert session.transact(warned) == "done"
        else:
            with pytest.raises(Unknown, match="a warning"):
                session.transact(warned)
    finally:
        session.close()


def test_a_store_of_a_newer_version_is_left_to_it(postgres: PostgresServer, store_url: str) -> None:
    newer = TableWorld(PostgresTable(store_url))
    with psycopg.connect(store_url) as other:
        other.execute("""update leveret_shard set meta = replace(meta, '"format": 1', '"format": 3')""")
    with pytest.raises(UnknownFormat, match="the data has format 3"):
        TableWorld(PostgresTable(store_url))
    assert newer.store.is_owner()
    newer.kill()


def test_a_session_ends_under_whoever_uses_it(postgres: PostgresServer, store_url: str) -> None:
    session, refusals = PostgresSession(store_url, 0), list[Exception]()

    def ask() -> None:
        try:
            session.run("select pg_sleep(1000)")
        except Unknown as unknown:
            refusals.append(unknown)

    asker = threading.Thread(target=ask)
    asker.start()
    postgres.wait_for("select 1 from pg_stat_activity where wait_event = 'PgSleep'")
    session.end()
    asker.join(PATIENCE_S)
    assert len(refusals) == 1
    postgres.sql("select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'PgSleep'")


def test_connections_are_counted(postgres: PostgresServer, store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = ConnectionFigures()
    monkeypatch.setattr(postgres_session, "FIGURES", figures)
    session = PostgresSession(store_url, 0)
    assert not figures.used

    def stand_still(run: Run) -> None:
        assert (figures.open, figures.in_use) == (1, 1)
        waiter.start()
        wait_until(lambda: figures.waits == 1 or None)

    waiter = threading.Thread(target=lambda: session.run("select 1"))
    session.transact(stand_still)
    waiter.join(PATIENCE_S)
    assert (figures.used, figures.open, figures.in_use, figures.connects, figures.errors) == (True, 1, 0, 1, 0)
    ((pid,),) = session.run("select pg_backend_pid()")[1]
    postgres.sql(f"select pg_terminate_backend({pid})")
    with pytest.raises(Unknown):
        session.run("select 1")
    assert (figures.open, figures.errors, figures.reconnects) == (0, 1, 0)
    session.run("select 1")
    assert (figures.open, figures.errors, figures.reconnects) == (1, 1, 1)
    session.close()
    assert (figures.open, figures.in_use) == (0, 0)


def test_nobody_waits_for_one_who_stands_still_in_a_transaction(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    TableWorld(PostgresTable(store_url)).kill()
    still = PostgresSession(store_url, 0)
    monkeypatch.setattr(postgres_session, "IDLE_MS", 100)
    still.run("select 1")
    monkeypatch.undo()

    def stand_still(run: Run) -> None:
        run("update leveret_shard set owner = owner", {})
        taken = TableWorld(PostgresTable(store_url))  # it would wait for the row for ever
        assert taken.store.is_owner()
        taken.kill()
        run("select 1", {})

    with pytest.raises(Unknown):
        still.transact(stand_still)


def test_one_who_has_not_waited_for_long_is_left_alone(postgres: PostgresServer, store_url: str) -> None:
    session, answers = PostgresSession(store_url, 0), list[object]()
    asker = threading.Thread(target=lambda: answers.append(session.run("select 1 from pg_advisory_xact_lock(7)")))
    with psycopg.connect(store_url) as other:
        other.execute("select pg_advisory_xact_lock(7)")
        asker.start()
        postgres.wait_for("select 1 from pg_stat_activity where wait_event = 'advisory'")
        session.cut(round(PATIENCE_S) * 1_000_000)
    asker.join(PATIENCE_S)
    session.close()
    assert answers == [(1, [(1,)])]
