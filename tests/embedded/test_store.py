"""A broker in this process whose messages are in PostgreSQL."""

import threading
from pathlib import Path

import pytest

import leveret
from leveret.storage.journal.postgres import store as table_store
from leveret.storage.options import shown
from tests.postgres_server import PostgresServer
from tests.waiting import PATIENCE_S


def test_it_is_there_again_after_it_was_opened_again(store_url: str) -> None:
    with leveret.open(store_url) as broker:
        orders = broker.queue("orders", dead_letter="orders-dlq")
        orders.send({"order_id": 1})
        orders.send(b"x" * 400_000, priority=3)
        journal = broker.stats().journal
        assert journal is not None
        assert (journal.segments, journal.sync, journal.log_bytes > 0) == (1, "always", True)
    with leveret.open(store_url) as broker:
        assert broker.recovery is not None
        assert broker.recovery.from_checkpoint
        messages = broker.queue("orders").receive(10)
        assert {len(message.body) for message in messages} == {1, 400_000}
        broker.queue("orders").ack_many(messages)
        assert sorted(queue.name for queue in broker.queues()) == ["orders", "orders-dlq"]


def test_large_bodies_lie_beside_the_journal_and_go_with_their_message(
    postgres: PostgresServer, store_url: str
) -> None:
    count = f"select count(*) from {store_url.rpartition('%3D')[2]}.leveret_blob_0"
    with leveret.open(store_url) as broker:
        broker.queue("orders").send(b"x" * 1_000_000)
    assert postgres.sql(count) == [(1,)]
    with leveret.open(store_url) as broker:
        (message,) = broker.queue("orders").receive()
        assert message.body == b"x" * 1_000_000
        message.ack()
        postgres.wait_for(f"select 1 where ({count}) = 0")


def test_what_it_stores_can_be_encrypted(store_url: str, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    keys = tmp_path / "keys"
    keys.write_text("a" * 64)
    for number in range(2):
        with leveret.open(store_url, encryption_key_file=str(keys), cache_bytes=1) as broker:
            broker.queue("orders").send(b"secret %d" % number)
            broker.queue("orders").send(b"secret %d" % number * 100_000)
    with pytest.raises(leveret.WrongKey):
        leveret.open(store_url)
    with leveret.open(store_url, encryption_key_file=str(keys)) as broker:
        assert len(broker.queue("orders").receive(10)) == 4


def test_whoever_was_replaced_raises_from_every_verb(store_url: str) -> None:
    with leveret.open(store_url, on_failure="raise") as first:
        orders = first.queue("orders")
        with leveret.open(store_url) as second:
            with pytest.raises(leveret.Fenced, match="has taken over this store"):
                orders.send("lost")
            with pytest.raises(leveret.Fenced):
                len(orders)
            second.queue("orders").send("kept")
            assert [message.body for message in second.queue("orders").receive(10)][-1] == "kept"


def test_what_needs_files_is_refused(store_url: str) -> None:
    for options in ({"salvage": True}, {"sync": "never"}):
        with pytest.raises(leveret.InvalidArgument):
            leveret.open(store_url, **options)


def test_a_password_is_not_shown() -> None:
    assert shown("postgresql://me:secret@host:5432/db?a=b") == "postgresql://me@host:5432/db?a=b"
    assert shown("postgresql://me:se?cret@host/db") == "postgresql://me@host/db"
    assert shown("postgresql://me@host/db") == "postgresql://me@host/db"
    assert shown("postgresql:///db") == "postgresql:///db"
    told = shown("postgresql://ada:hu:sh@db:5432/x?connect_timeout=1&password=hush&sslpassword=hush")
    assert told == "postgresql://ada@db:5432/x?connect_timeout=1&password=&sslpassword="
    assert shown("postgresql:///x?host=/run/a:b@c") == "postgresql:///x?host=/run/a:b@c"
    assert shown("data") == "data"


def test_it_is_closed_although_its_housekeeper_waits_for_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_store, "CLOSE_PATIENCE_S", 0.2)
    waiting = threading.Event()
    with PostgresServer() as server:
        broker = leveret.open(server.url(), on_failure="raise")
        store = broker.runtime.store
        assert store is not None
        wait = store.commit.wait
        server.crash()

        def tell(seq: int) -> None:
            waiting.set()
            wait(seq)

        monkeypatch.setattr(store.commit, "wait", tell)
        monkeypatch.setattr(store, "housekeep", store.checkpoint)
        assert waiting.wait(PATIENCE_S)
        broker.close()
        assert "start again when PostgreSQL answers" in str(store.commit.failed)
