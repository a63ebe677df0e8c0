"""Large bodies in PostgreSQL: each shard keeps its own."""

from leveret.embedded.broker import open_shard
from leveret.journal.table_store import Claim


def test_a_shard_leaves_the_large_bodies_of_others_alone(store_url: str) -> None:
    body = b"x" * 2_000_000
    first = open_shard(store_url, 1, Claim("a", 1))
    first.queue("q").send(body)
    open_shard(store_url, 2, Claim("b", 1)).close()
    (message,) = first.queue("q").receive(1)
    assert message.body == body
    first.close()
