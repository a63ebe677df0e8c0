"""What operators see of a cluster and do to it, by the command line on real nodes."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from examples.cluster.__main__ import told as how_to_connect
from leveret.cli import main
from leveret.cluster.coordination.keys import Owner
from leveret.cluster.operations import state_of
from leveret.core.errors import PreconditionFailed
from tests import waiting
from tests.cluster.coordination.etcd_process import EtcdProcess
from tests.cluster.processes import SHARDS, Nodes
from tests.server_process import TRACEBACK


def status(nodes: Nodes, name: str) -> dict[str, Any]:
    """The cluster as a node sees it."""
    told: dict[str, Any] = nodes.operate(name, "cluster.status")
    return told


def wait_until(nodes: Nodes, name: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Look until the cluster is as it should be."""

    def look() -> dict[str, Any] | None:
        told = status(nodes, name)
        return told if holds(told) else None

    return waiting.wait_until(look, lambda: status(nodes, name))


def has_settled(told: dict[str, Any]) -> bool:
    """Whether all nodes are linked and every shard has an active owner."""
    links = all(member["linked"] != "down" and member["definitions"] is not None for member in told["members"])
    return links and all(row["state"] == "active" for row in told["shards"])


def owners(told: dict[str, Any]) -> list[str]:
    return [row["owner"] for row in told["shards"]]


def test_shards_go_where_they_should_and_away_from_a_node_that_leaves(
    nodes: Nodes, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes.start("a")
    with nodes.connect("a") as connection:
        connection.channel().queue_declare("q", durable=True)
    wait_until(nodes, "a", lambda told: has_settled(told) and owners(told) == ["a"] * SHARDS)
    nodes.start("b")
    wait_until(nodes, "a", lambda told: has_settled(told) and len(told["members"]) == 2)

    assert main.main(["cluster", "rebalance", "--data", nodes.data("b")]) == 0
    assert "shards move, one by one; asked: a, b" in capsys.readouterr().out
    told = wait_until(nodes, "a", lambda told: has_settled(told) and owners(told).count("b") == SHARDS // 2)
    assert [member["shards"] for member in told["members"]] == [2, 2]
    assert all(member["counts"]["takeovers"] >= SHARDS // 2 for member in told["members"])
    assert sum(row["queues"] for row in told["shards"]) == 1
    assert sum(nodes.operate(name, "status")["queues"] for name in nodes.names) == 1
    assert len({member["definitions"] for member in told["members"]}) == 1

    assert main.main(["cluster", "status", "--data", nodes.data("b")]) == 0
    shown = capsys.readouterr().out
    assert "as node b sees it" in shown
    assert told["members"][0]["addresses"]["amqp"] in shown

    def summary() -> tuple[Any, ...]:
        assert main.main(["cluster", "status", "--json", "--data", nodes.data("b")]) == 0
        shown = json.loads(capsys.readouterr().out)
        (group,) = shown["groups"]
        members = [member["redis"] for member in shown["members"]]
        return shown["node"], members, group["state"], group["standbys"], group["shards"]

    # Whoever takes long to answer is left out at first.
    waiting.wait_until(lambda: summary() == ("b", ["none", "none"], "reachable", "", SHARDS), summary)

    def advice() -> list[str]:
        assert main.main(["doctor", nodes.data("b")]) == 0
        return [line.split(":")[0] for line in capsys.readouterr().out.split("What to do:\n")[1].splitlines()]

    wanted = [
        "- group 0 has its commits on one disk",
        "- etcd has 1 of 3 members that it should have",
        "- cluster_lease_s is 1 s",
        "- nodes a, b have no Redis",
    ]
    waiting.wait_until(lambda: advice() == wanted, advice)

    assert main.main(["cluster", "drain", "--data", nodes.data("b")]) == 0
    assert " shards to a; it stops" in capsys.readouterr().out
    assert nodes.wait("b") == 0
    told = wait_until(nodes, "a", lambda told: has_settled(told) and len(told["members"]) == 1)
    assert owners(told) == ["a"] * SHARDS
    with pytest.raises(PreconditionFailed, match="no other node is there"):
        nodes.operate("a", "cluster.drain")


def test_a_drained_node_that_stays_serves_clients(nodes: Nodes) -> None:
    nodes.start("a", "b")
    wait_until(nodes, "b", lambda told: has_settled(told) and len(told["members"]) == 2)
    assert nodes.operate("a", "cluster.drain", stay=True)["others"] == ["b"]
    told = wait_until(nodes, "a", lambda told: has_settled(told) and owners(told) == ["b"] * SHARDS)
    assert [member["draining"] for member in told["members"]] == [True, False]
    with nodes.connect("a") as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        channel.basic_publish("", "q", b"kept")
        assert channel.basic_get("q", auto_ack=True)[2] == b"kept"
    assert TRACEBACK not in nodes.log("a") + nodes.log("b")


def test_a_node_that_does_not_answer_is_told_with_the_reason(
    tmp_path: Path, etcd: EtcdProcess, store_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # With a lease that it does not lose meanwhile: it is in etcd all the time.
    with Nodes(tmp_path, etcd.url, store_url, SHARDS, 60) as nodes:
        nodes.start("a", "b")
        nodes.signal("b", signal.SIGSTOP)
        silent = status(nodes, "a")["members"][1]
        assert silent["unanswered"].startswith("it has said nothing for")
        assert (silent["node"], silent["definitions"]) == ("b", None)

        nodes.kill("b")
        wait_until(nodes, "a", lambda told: told["members"][1]["unanswered"] == "it refuses connections")
        assert main.main(["cluster", "status", "--data", nodes.data("a")]) == 0
        address = silent["addresses"]["link"]
        assert f"node b ({address}) does not answer: it refuses connections" in capsys.readouterr().out


def test_clients_connect_as_the_example_says(nodes: Nodes) -> None:
    nodes.start("a")
    shown = how_to_connect(nodes)
    assert nodes.data("a") in shown
    names: dict[str, Any] = {}
    exec(dedent(shown[shown.index("    import pika") : shown.index("By REST")]), names)
    with names["channel"].connection as connection:
        assert connection.channel().queue_declare("orders", passive=True).method.message_count == 0


def test_a_shard_whose_owner_cannot_be_reached_is_not_called_active() -> None:
    taken, asked = Owner("b", revision=7, lease=1, epoch=7), {"b": {"phases": {"0": "moving"}}}
    assert [state_of(shard, taken, {"a", "b"}, asked) for shard in (0, 1)] == ["moving", "active"]
    assert state_of(0, taken, {"a"}, {}) == "unreachable"
    assert state_of(0, None, {"a"}, {}) == "vacant"


def test_a_broker_without_a_cluster_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["cluster", "status", "--data", str(tmp_path)]) == 1
    assert "no running node of a cluster" in capsys.readouterr().err
