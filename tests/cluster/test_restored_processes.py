"""A database that is restored from an older backup, beside one that is not: what only the newer one knows is kept."""

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pika
import psycopg
import pytest

from leveret.cli import main
from tests import waiting
from tests.cluster.cluster import name_in
from tests.cluster.coordination.etcd_process import EtcdProcess
from tests.cluster.processes import LEASE_S, SHARDS, Nodes
from tests.postgres_server import PostgresServer
from tests.server_process import TRACEBACK
from tests.waiting import PATIENCE_S

PERSISTENT = pika.BasicProperties(delivery_mode=2)
LOST = name_in(3, "lost")


def status(nodes: Nodes) -> dict[str, Any]:
    told: dict[str, Any] = nodes.operate("a", "cluster.status")
    return told


def wait_until(nodes: Nodes, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Look until the cluster is as it should be."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds(told := status(nodes)):
        assert time.monotonic() < deadline, (told, nodes.log("a")[-4_000:])
        time.sleep(0.05)
    return told


def figure(nodes: Nodes, name: str) -> int:
    """What a scrape tells of the part of a node in its cluster."""
    with urlopen(f"http://127.0.0.1:{nodes.http_port('a')}/metrics", timeout=PATIENCE_S) as answer:
        lines = answer.read().decode().splitlines()
    (found,) = (line for line in lines if line.startswith(f"leveret_cluster_{name} "))
    return int(found.split()[1])


def are_active(told: dict[str, Any]) -> bool:
    return all(row["state"] == "active" for row in told["shards"])


def test_definitions_from_a_backup_do_not_take_messages_of_a_newer_database(
    tmp_path: Path, etcd: EtcdProcess, postgres: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (f"{name}_{secrets.token_hex(8)}" for name in ("first", "second"))
    dump = str(postgres.folder / f"{first}.dump")
    with Nodes(tmp_path, etcd.url, postgres.new_url(first), SHARDS, LEASE_S) as nodes:
        nodes.start("a")
        nodes.operate("a", "cluster.add-shard-group", url=postgres.new_url(second), shards=0)
        wait_until(nodes, are_active)
        nodes.operate("a", "cluster.move-shard", shard=3, group=1)
        wait_until(nodes, lambda told: are_active(told) and told["shards"][3]["group"] == 1)
        postgres.run("pg_dump", "--format=custom", f"--schema={first}", f"--file={dump}", f"--dbname={postgres.url()}")
        with nodes.connect("a") as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare(LOST, durable=True)
            channel.basic_publish("", LOST, b"precious", PERSISTENT)
        nodes.stop("a")
        postgres.sql(f"drop schema {first} cascade")
        postgres.run("pg_restore", f"--dbname={postgres.url()}", dump)

        nodes.start("a")
        told = wait_until(nodes, are_active)
        assert [(row["shard"], row["names"], row["messages"]) for row in told["doubts"]] == [("3", [LOST], 1)]
        data = nodes.data("a")
        assert main.main(["cluster", "status", "--data", data]) == 0
        assert "warning: the definitions are older than shard 3" in capsys.readouterr().out
        assert main.main(["cluster", "discard", "--data", data]) == 1
        assert "--yes" in capsys.readouterr().err
        assert main.main(["cluster", "adopt", "--data", data]) == 0
        assert "shard 3 was adopted" in capsys.readouterr().out
        assert main.main(["cluster", "adopt", "--data", data]) == 0
        assert "no shard has anything" in capsys.readouterr().out
        with nodes.connect("a") as connection:
            assert connection.channel().basic_get(LOST, auto_ack=True)[2] == b"precious"
        assert "definitions older than a shard" in nodes.log("a")

        # Whoever cannot ask whether there are newer definitions says so.
        assert figure(nodes, "shards_doubtful") == 0
        waiting.wait_until(lambda: figure(nodes, "definitions_trouble") == 0)
        with psycopg.connect(postgres.url(first)) as other:
            other.execute("lock table leveret_catalog_reader in access exclusive mode")
            wait_until(nodes, lambda told: told["members"][0]["troubles"]["definitions"] is not None)
            assert figure(nodes, "definitions_trouble") == 1
        wait_until(nodes, lambda told: told["members"][0]["troubles"]["definitions"] is None)
        assert TRACEBACK not in nodes.log("a")
