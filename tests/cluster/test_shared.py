"""Nodes with a Redis, which goes and comes back under them, and nodes without one."""

import json
import urllib.request
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pika
import pytest

from tests.cluster.cluster import name_in
from tests.cluster.coordination.etcd_process import EtcdProcess
from tests.cluster.processes import LEASE_S, SHARDS, Nodes
from tests.cluster.web_cluster import WebCluster
from tests.redis_process import RedisProcess
from tests.waiting import PATIENCE_S, wait_until

NAMES = ("a", "b")
ROUNDS_MAX = 6


def wait_for(nodes: Nodes, is_up: bool) -> None:
    """Wait until every node has found out whether Redis answers."""
    figure = f"\nleveret_redis_up {is_up:d}\n"
    wait_until(
        lambda: all(figure in seen(nodes, name, "/metrics") for name in NAMES),
        lambda: [nodes.log(name) for name in NAMES],
    )


def wrong_passwords(nodes: Nodes, redis_server: RedisProcess) -> list[int]:
    """Log in wrongly once at each node; give the counts of all of those, by name and by address."""
    wait_for(nodes, is_up=True)
    for name in NAMES:
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            nodes.connect(name, password="wrong")
    counts = [int(redis_server.command("GET", key)) for key in redis_server.key_names if "/login/" in key]
    return counts if len(counts) == 2 else [0]


def taken(nodes: Nodes, name: str, key: str) -> tuple[bytes, str | None]:
    """Take a message through a node, by a request that has a key: what came of it, and whether it is repeated."""
    connection = HTTPConnection("127.0.0.1", nodes.http_port(name), timeout=PATIENCE_S)
    headers = {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q=", "Idempotency-Key": key}
    connection.request("POST", "/queues/orders/dequeue", "{}", headers)
    with closing(connection), connection.getresponse() as answer:
        assert answer.status == 200
        return answer.read(), answer.getheader("Idempotency-Replayed")


def seen(nodes: Nodes, name: str, path: str) -> str:
    """What a node says to everybody."""
    place = f"http://127.0.0.1:{nodes.http_port(name)}{path}"
    with urllib.request.urlopen(place, timeout=PATIENCE_S) as answer:
        text: bytes = answer.read()
    return text.decode()


def members(nodes: Nodes) -> list[tuple[str | None, bool]]:
    """Whether each node has Redis, and nothing to say about it; those that take long to answer say neither."""
    rows = nodes.operate("a", "cluster.status")["members"]
    return [(each["redis"], (each["troubles"] or {}).get("redis") is None) for each in rows]


def repeated(nodes: Nodes, key: str) -> bool:
    """Whether one node repeats what the other answered."""
    wait_for(nodes, is_up=True)
    (first, _), (second, again) = (taken(nodes, name, key) for name in NAMES)
    return first == second and again == "true"


def test_nodes_share_what_redis_keeps_and_serve_without_it(tmp_path: Path, etcd: EtcdProcess, store_url: str) -> None:
    redis_server = RedisProcess(tmp_path, password="open-sesame")
    flags = ("--redis", redis_server.url)
    with redis_server, Nodes(tmp_path, etcd.url, store_url, SHARDS, LEASE_S, *flags) as nodes:
        nodes.start(*NAMES)
        # A node on a busy machine may find Redis too slow now and then; more than one of them counted all the same.
        assert any(min(wrong_passwords(nodes, redis_server)) > rounds for rounds in range(1, ROUNDS_MAX))

        redis_server.kill()
        wait_for(nodes, is_up=False)
        for name in NAMES:
            with nodes.connect(name) as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                channel.queue_declare("orders", durable=True)
                channel.basic_publish("", "orders", b"x")
        for name in NAMES:
            ready = json.loads(seen(nodes, name, "/health/ready"))
            assert ready["status"] == "ok"
            assert "redis" in ready["degraded"][0]
        wait_until(lambda: members(nodes) == [("local", False)] * 2, lambda: members(nodes))
        assert all(json.loads(taken(nodes, name, "alone")[0])["messages"] for name in NAMES)

        redis_server.start()
        assert any(repeated(nodes, f"key {attempt}") for attempt in range(ROUNDS_MAX))
        assert "sesame" not in nodes.log("a") + nodes.log("b")


@pytest.mark.parametrize("shard", [0, 1], ids=["its own", "of another node"])
def test_a_node_without_redis_repeats_its_own_answers(shard: int) -> None:
    cluster = WebCluster("a", "b")
    try:
        name = name_in(shard, "orders")
        cluster.ok("a", f"PUT /queues/{name}")
        for payload in (1, 2):
            cluster.ok("a", f"POST /queues/{name}/messages", {"payload": payload})
        first, again, other = (
            cluster.ask(node, f"POST /queues/{name}/dequeue", {}, Idempotency_Key="k") for node in "aab"
        )
        assert first.json == again.json != other.json
        assert [each.headers.get("idempotency-replayed") for each in (first, again, other)] == [None, "true", None]
        assert cluster.ask("a", f"POST /queues/{name}/dequeue", {"max_messages": 2}, Idempotency_Key="k").status == 422
    finally:
        cluster.close()
