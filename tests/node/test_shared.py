"""Nodes with a Redis, which goes and comes back under them."""

import re
import time
from pathlib import Path

import pika
import pytest

from tests.cluster.etcd_process import EtcdProcess
from tests.node.processes import LEASE_S, PATIENCE_S, POLL_S, SHARDS, Nodes
from tests.redis_process import RedisProcess

NAMES = ("a", "b")
ROUNDS_MAX = 6


def wait_for(nodes: Nodes, event: str, times: int) -> None:
    """Wait until every node has logged an event so often."""
    deadline = time.monotonic() + PATIENCE_S
    while any(len(re.findall(rf"(?m) {event} ", nodes.log(name))) < times for name in NAMES):
        assert time.monotonic() < deadline, [nodes.log(name) for name in NAMES]
        time.sleep(POLL_S)


def wrong_passwords(nodes: Nodes, redis_server: RedisProcess) -> list[int]:
    """Log in wrongly once at each node; give the counts of all of those, by name and by address."""
    for name in NAMES:
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            nodes.connect(name, password="wrong")
    counts = [int(redis_server.command("GET", key)) for key in redis_server.key_names if "/login/" in key]
    return counts if len(counts) == 2 else [0]


def test_nodes_count_wrong_passwords_together_and_need_no_redis_to_serve(
    tmp_path: Path, etcd: EtcdProcess, store_url: str
) -> None:
    redis_server = RedisProcess(tmp_path, password="open-sesame")
    flags = ("--redis", redis_server.url)
    with redis_server, Nodes(tmp_path, etcd.url, store_url, SHARDS, LEASE_S, *flags) as nodes:
        nodes.start(*NAMES)
        wait_for(nodes, "redis answers", 1)
        # A node on a busy machine may find Redis too slow now and then; more than one of them counted all the same.
        assert any(min(wrong_passwords(nodes, redis_server)) > rounds for rounds in range(1, ROUNDS_MAX))

        redis_server.kill()
        wait_for(nodes, "redis does not answer", 1)
        for name in NAMES:
            with nodes.connect(name) as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                channel.queue_declare("orders", durable=True)
                channel.basic_publish("", "orders", b"x")
        redis_server.start()
        wait_for(nodes, "redis answers", 2)
        assert "sesame" not in nodes.log("a") + nodes.log("b")
