"""A journal whose PostgreSQL is away for a while, does not answer, or loses its connections."""

import itertools
import os
import signal
import threading

import pytest

from leveret.core.errors import JournalFailed, StoreUnreachable
from leveret.storage.journal.postgres import reader
from leveret.storage.journal.postgres import store as table_store
from leveret.storage.journal.postgres.statements import PostgresTable
from tests.postgres_server import PostgresServer
from tests.storage.journal.table_world import TableWorld
from tests.waiting import PATIENCE_S, wait_until


def test_a_server_that_crashes_and_comes_back(store_url: str) -> None:
    with PostgresServer() as server:
        world = TableWorld(PostgresTable(server.url()), threaded=True)
        confirmed = [world.durably(b"before")]
        server.crash()
        seq, told = world.begin(b"meanwhile")
        server.start()
        assert told.wait(PATIENCE_S)
        confirmed += [seq, world.durably(b"after")]
        world.kill()
        again = TableWorld(PostgresTable(server.url()))
        assert sorted(again.state.queues[1]) == confirmed
        again.close()


def test_a_lost_connection_does_not_keep_records_from_being_read(postgres: PostgresServer, store_url: str) -> None:
    world = TableWorld(PostgresTable(store_url), cache_bytes=1)
    seq = world.durably(b"far away")
    world.state.read(1, seq)
    world.durably(b"other")
    postgres.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'leveret'")
    assert world.state.read(1, seq).body == b"far away"
    world.close()


def test_a_database_that_is_away_is_not_asked_for_each_record(monkeypatch: pytest.MonkeyPatch) -> None:
    with PostgresServer() as server:
        table = PostgresTable(server.url())
        world = TableWorld(table, cache_bytes=1)
        seq = world.durably(b"far away")
        server.crash()
        world.store.housekeep()
        asked: list[int] = []
        monkeypatch.setattr(table, "window", lambda segment, offset, size: asked.append(offset))
        with pytest.raises(StoreUnreachable, match="does not answer"):
            world.state.read(1, seq)
        assert not asked
        monkeypatch.undo()
        server.start()
        world.store.housekeep()
        assert world.state.read(1, seq).body == b"far away"
        world.close()


def test_nobody_waits_for_long_for_a_record_that_a_database_does_not_give(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "SOON_S", 0.2)
    table = PostgresTable(store_url)
    world = TableWorld(table, cache_bytes=1)
    seq = world.durably(b"far away")
    world.durably(b"other")
    ((pid,),) = table._reading.run("select pg_backend_pid()", {})[1]
    world.store.opened()
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(StoreUnreachable, match=r"no answer for 0\.2 s"):
            world.state.read(1, seq)
        with pytest.raises(StoreUnreachable, match="it has not answered the question before this one"):
            world.state.read(1, seq)
    finally:
        os.kill(pid, signal.SIGCONT)
    monkeypatch.undo()
    assert wait_until(lambda: _given(world, seq)) == b"far away"
    world.close()


def _given(world: TableWorld, seq: int) -> bytes | None:
    """A record, if the database gives it."""
    try:
        return world.state.read(1, seq).body
    except StoreUnreachable:
        return None


def test_a_segment_that_is_gone_is_not_overlooked_by_the_housekeeper(postgres: PostgresServer, store_url: str) -> None:
    first = TableWorld(PostgresTable(store_url), segment_bytes=1024)
    for i in range(20):
        first.durably(b"%d" % i)
    first.close()
    world = TableWorld(PostgresTable(store_url))
    postgres.sql(f"drop table {store_url.rpartition('%3D')[2]}.leveret_segment_0_1")
    with pytest.raises(JournalFailed, match="does not exist"):
        world.store.compact()
    assert world.failures
    world.kill()


def test_a_database_that_does_not_answer(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_store, "OPEN_PATIENCE_S", 0.1)
    with pytest.raises(StoreUnreachable, match="cannot be opened"):
        TableWorld(PostgresTable("postgresql:///none?host=/nowhere"))


def test_attempts_that_take_long_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks_us = itertools.count(0, 3_000_000)
    monkeypatch.setattr(table_store, "ticks_us", lambda: next(ticks_us))
    pauses: list[float] = []
    with pytest.raises(StoreUnreachable, match="cannot be opened"):
        TableWorld(PostgresTable("postgresql:///none?host=/nowhere"), pause=pauses.append)
    assert len(pauses) == 1, "the second attempt ends after more than five seconds"


def test_a_store_that_is_closed_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_store, "CLOSE_PATIENCE_S", 0.2)
    with PostgresServer() as server:
        world = TableWorld(PostgresTable(server.url()), threaded=True)
        world.durably()
        server.crash()
        world.publish()
        with pytest.raises(JournalFailed, match="the store did not take frame 2"):
            world.close()
        assert world.failures


def test_a_store_that_is_closed_does_not_wait_for_a_question_either(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_store, "CLOSE_PATIENCE_S", 0.2)
    table = PostgresTable(store_url)
    world = TableWorld(table)
    ((pid,),) = table._reading.run("select pg_backend_pid()", {})[1]
    unanswered = threading.Event()

    def ask() -> None:
        with pytest.raises(StoreUnreachable):
            world.store.is_owner()
        unanswered.set()

    os.kill(pid, signal.SIGSTOP)
    asker = threading.Thread(target=ask)
    asker.start()
    try:
        wait_until(table._reading._mutex.locked)
        world.close()
        assert unanswered.wait(PATIENCE_S)
    finally:
        os.kill(pid, signal.SIGCONT)
        asker.join()
