"""Large bodies in an object store that all nodes share: found by whoever takes over, and away for large ones only."""

import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.cluster.coordination.etcd_process import EtcdProcess
from tests.cluster.processes import LEASE_S, SHARDS, Nodes
from tests.durability.s3 import Bucket, s3
from tests.server_process import TRACEBACK
from tests.waiting import PATIENCE_S, wait_until

LARGE = b"x" * 300_000
NAMES = [f"q{number}" for number in range(8)]  # some in every shard


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """An S3 server that nodes find by their environment."""
    with s3() as server:
        for name, value in server.environ.items():
            monkeypatch.setenv(name, value)
        yield server


def publish(channel: BlockingChannel, name: str, body: bytes) -> None:
    """Publish until it is confirmed: what is under way when a shard moves is refused."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            channel.basic_publish("", name, body, pika.BasicProperties(delivery_mode=2), mandatory=True)
        except pika.exceptions.NackError:
            assert time.monotonic() < deadline
        else:
            return


def test_large_bodies_are_shared_by_nodes(tmp_path: Path, etcd: EtcdProcess, store_url: str, bucket: Bucket) -> None:
    with Nodes(tmp_path, etcd.url, store_url, SHARDS, LEASE_S, "--blobs", "s3://bucket/large") as nodes:
        nodes.start("a", "b")
        nodes.balance()  # what is refused while a shard moves may be stored all the same
        with nodes.connect("b") as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            for name in NAMES:
                channel.queue_declare(name, durable=True)
                publish(channel, name, LARGE + name.encode())
            assert len(bucket.objects) == len(NAMES)
            folders = {path.rpartition("/")[0] for path in bucket.objects}
            assert len(folders) == len({row["shard"] for row in shards(nodes) if row["queues"]}) > 1

            bucket.broken = True
            nodes.kill("a")  # others take its shards, although nobody can look for large bodies
            for name in NAMES:
                publish(channel, name, b"small")
            with nodes.connect("b") as other:
                refused = other.channel()
                refused.confirm_delivery()
                with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="did not store a body"):
                    publish(refused, NAMES[0], LARGE)
            publish(channel, NAMES[0], b"small")
            bucket.broken = False

            for name in NAMES:
                assert take(channel, name) == LARGE + name.encode()
                assert take(channel, name) == b"small"
            assert take(channel, NAMES[0]) == b"small"
            wait_until(lambda: not bucket.objects, lambda: list(bucket.objects))
        assert TRACEBACK not in nodes.log("b")


def shards(nodes: Nodes) -> list[dict[str, object]]:
    told: list[dict[str, object]] = nodes.operate("b", "cluster.status")["shards"]
    return told


def take(channel: BlockingChannel, name: str) -> bytes | None:
    """The next message of a queue."""
    body: bytes | None = channel.basic_get(name, auto_ack=True)[2]
    return body
