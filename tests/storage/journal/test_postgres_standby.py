"""Commits that wait for a standby: nothing is confirmed that a failover could take back."""

import secrets
import threading
from collections.abc import Iterator
from typing import Self

import pytest

from leveret.storage.journal.postgres.statements import PostgresTable
from tests.postgres_server import PostgresServer
from tests.storage.journal.table_world import TableWorld
from tests.waiting import PATIENCE_S

WAITING = "select pid from pg_stat_activity where wait_event = 'SyncRep'"


class Pair:
    """A primary, and a standby that every commit waits for."""

    def __init__(self) -> None:
        self.primary = PostgresServer()
        self.standby = PostgresServer()

    def __enter__(self) -> Self:
        self.primary.make().start()
        self.standby.copy(self.primary).start()
        self.primary.sql("alter system set synchronous_standby_names = '*'")
        self.primary.sql("select pg_reload_conf()")
        self.primary.wait_for("select 1 from pg_stat_replication where sync_state = 'sync'")
        return self

    def __exit__(self, *error: object) -> None:
        self.standby.close()
        self.primary.close()


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with Pair() as pair:
        yield pair


@pytest.mark.parametrize(
    ("end", "settings"),
    [
        ("pg_cancel_backend", ""),
        ("pg_terminate_backend", ""),
        ("pg_cancel_backend", "-cclient_min_messages%3Derror%20"),
    ],
    ids=["cancelled", "terminated", "cancelled-where-warnings-are-hidden"],
)
def test_a_wait_that_was_cancelled_is_never_confirmed(pair: Pair, end: str, settings: str) -> None:
    url = pair.primary.new_url(f"schema_{secrets.token_hex(8)}").replace("options=", f"options={settings}")
    world = TableWorld(PostgresTable(url), threaded=True)
    confirmed = [world.durably(b"before")]
    pair.standby.stop()
    seq, told = world.begin(b"meanwhile")
    pair.primary.wait_for(WAITING)
    pair.primary.sql(f"select {end}(pid) from pg_stat_activity where wait_event = 'SyncRep'")
    assert world.tried.wait(PATIENCE_S), "the outcome is unknown"
    assert "synchronous replication" in (world.store.trouble or "") or end == "pg_terminate_backend"
    pair.primary.wait_for(WAITING)  # the barrier waits for the standby as well
    assert not told.is_set()
    pair.standby.start()
    assert told.wait(PATIENCE_S)
    confirmed += [seq, world.durably(b"after")]
    world.kill()
    again = TableWorld(PostgresTable(url))
    assert sorted(again.state.queues[1]) == confirmed
    again.kill()


def test_a_takeover_waits_for_what_is_under_way(pair: Pair) -> None:
    url = pair.primary.new_url("schema_takeover")
    first = TableWorld(PostgresTable(url), threaded=True)
    first.durably(b"before")
    pair.standby.stop()
    seq, told = first.begin(b"under way")
    pair.primary.wait_for(WAITING)
    opened: list[TableWorld] = []
    opening = threading.Thread(target=lambda: opened.append(TableWorld(PostgresTable(url))))
    opening.start()
    pair.primary.wait_for("select 1 from pg_stat_activity where wait_event_type = 'Lock'")
    assert not told.is_set()
    pair.standby.start()
    opening.join(PATIENCE_S)
    assert told.wait(PATIENCE_S)
    assert seq in opened[0].state.queues[1], "what was confirmed is there for the next owner"
    first.kill()
    opened[0].kill()


def test_a_standby_that_takes_over_has_all_that_was_confirmed() -> None:
    with Pair() as pair:
        world = TableWorld(PostgresTable(pair.primary.url()))
        confirmed = [world.durably(b"%d" % i) for i in range(20)]
        pair.primary.crash()
        world.kill()
        pair.standby.sql("select pg_promote()")
        pair.standby.sql("alter system set synchronous_standby_names = ''")
        pair.standby.sql("select pg_reload_conf()")
        again = TableWorld(PostgresTable(pair.standby.url()))
        assert sorted(again.state.queues[1]) == confirmed
        again.durably(b"and on")
        again.close()
