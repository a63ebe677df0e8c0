"""Large bodies in PostgreSQL: each shard keeps its own."""

import psycopg
import pytest

import leveret
from leveret.core.errors import BlobStoreFailed
from leveret.embedded.broker import open_shard
from leveret.storage.journal.postgres.blobs import PostgresBlobs
from leveret.storage.journal.postgres.store import Takeover
from tests.postgres_server import PostgresServer


def test_a_shard_leaves_the_large_bodies_of_others_alone(store_url: str) -> None:
    body = b"x" * 2_000_000
    first = open_shard(store_url, 1, Takeover("a", 1))
    first.queue("q").send(body)
    open_shard(store_url, 2, Takeover("b", 1)).close()
    (message,) = first.queue("q").receive(1)
    assert message.body == body
    first.close()


def test_a_backup_does_not_keep_a_shard_from_being_opened(postgres: PostgresServer, store_url: str) -> None:
    first = open_shard(store_url, 1, Takeover("a", 1))
    first.queue("q").send(b"x" * 2_000_000)
    first.close()
    with psycopg.connect(store_url) as backup:
        backup.execute("select 1 from leveret_blob_1")
        second = open_shard(store_url, 1, Takeover("b", 2))
        (message,) = second.queue("q").receive(1)
        assert len(message.body) == 2_000_000
        second.close()


def test_a_body_goes_with_its_message_although_the_sweep_had_failed(
    postgres: PostgresServer, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with leveret.open(store_url) as broker:
        broker.queue("q").send(b"x" * 1_000_000)
    blobs = PostgresBlobs(store_url, 0)
    blobs.put(f"20260101-{'0' * 32}", b"an orphan")

    def fail(self: PostgresBlobs, key: str) -> None:
        raise BlobStoreFailed("not now")

    with monkeypatch.context() as patched:
        patched.setattr(PostgresBlobs, "delete", fail)
        broker = leveret.open(store_url)
    with broker:
        broker.queue("q").receive()[0].ack()
        # The orphan is left, for the next one.
        postgres.wait_for(f"select 1 from {store_url.rpartition('%3D')[2]}.leveret_blob_0 having count(*) = 1")
    with leveret.open(store_url):
        assert blobs.names() == []
