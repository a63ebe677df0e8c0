"""The firehose copies what RabbitMQ's copies, on a single server and through a node of a cluster."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from leveret.core.broker import Broker
from leveret.core.topology import VhostDetails
from tests.cluster.cluster import SHARDS, Cluster
from tests.rabbitmq import rabbit
from tests.rabbitmq.firehose import RECORDED, played
from tests.server_process import ServerProcess

SAID = RECORDED.read_text().splitlines()
TRACED = VhostDetails(tracing=True)


def turn(server: ServerProcess, state: str) -> None:
    """What an operator does."""
    command = [sys.executable, "-m", "leveret", "vhosts", "trace", "/", state, "--data", str(server.data)]
    subprocess.run(command, check=True, capture_output=True)


def test_a_server_copies_what_rabbitmq_does(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        turn(server, "on")
        assert played(("127.0.0.1", server.port, "/")) == SAID


def test_nothing_is_copied_when_it_is_off(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        turn(server, "on")
        turn(server, "off")
        assert [line for line in played(("127.0.0.1", server.port, "/")) if "amq.rabbitmq.trace" in line] == SAID[-1:]


def _trace(core: Broker) -> None:
    core.declare_vhost("/", TRACED)


def test_a_node_copies_what_the_shards_of_another_one_deliver() -> None:
    cluster = Cluster("a", "b")
    try:
        for home in map(str, range(SHARDS)):
            if cluster.owners[home] == "a":
                cluster.move(home, "b")
        member = cluster.members["a"]
        cluster.run(member.node.decide(_trace))
        assert played(("127.0.0.1", member.port, "/")) == SAID
    finally:
        cluster.close()


def test_rabbitmq_still_copies_what_was_recorded(tmp_path: Path) -> None:
    if not os.environ.get("RABBITMQ") or not rabbit.installed():
        pytest.skip("`make rabbitmq` asks a RabbitMQ again")
    with rabbit.playing(tmp_path, traced=True) as addresses:
        assert played(addresses[0]) == SAID
