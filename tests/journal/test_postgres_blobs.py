"""Large bodies in PostgreSQL: each shard keeps its own."""

import psycopg

from leveret.embedded.broker import open_shard
from leveret.journal.table_store import Claim
from tests.postgres_server import PostgresServer


def test_a_shard_leaves_the_large_bodies_of_others_alone(store_url: str) -> None:
    body = b"x" * 2_000_000
    first = open_shard(store_url, 1, Claim("a", 1))
    first.queue("q").send(body)
    open_shard(store_url, 2, Claim("b", 1)).close()
    (message,) = first.queue("q").receive(1)
    assert message.body == body
    first.close()


def test_a_backup_does_not_keep_a_shard_from_being_opened(postgres: PostgresServer, store_url: str) -> None:
    first = open_shard(store_url, 1, Claim("a", 1))
    first.queue("q").send(b"x" * 2_000_000)
    first.close()
    with psycopg.connect(store_url) as backup:
        backup.execute("select 1 from leveret_blob_1")
        second = open_shard(store_url, 1, Claim("b", 2))
        (message,) = second.queue("q").receive(1)
        assert len(message.body) == 2_000_000
        second.close()
