"""Two nodes under TLS: shards move between two PostgreSQLs while clients publish and consume, and while a node dies."""

import json
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pika
import pika.exceptions
import pytest

from leveret.cli import main
from leveret.cluster.shards.group_operations import share
from leveret.core.errors import InvalidArgument, LeveretError, NotFound, PreconditionFailed
from tests.cluster.coordination.etcd_process import EtcdProcess
from tests.cluster.processes import LEASE_S, SHARDS, Nodes
from tests.postgres_server import PostgresServer
from tests.server.certificates import Authority
from tests.server_process import TRACEBACK
from tests.waiting import wait_until

PERSISTENT = pika.BasicProperties(delivery_mode=2)
NAMES = [f"q{number}" for number in range(8)]  # some in every shard
SCHEMA = f"groups_{secrets.token_hex(8)}"


class Load:
    """Publishes with confirms and consumes, through one node each, and begins anew whenever that is needed."""

    def __init__(self, nodes: Nodes, publishing: str, consuming: str) -> None:
        self._nodes = nodes
        self._stop = threading.Event()
        self.confirmed: set[bytes] = set()
        self.taken: set[bytes] = set()
        self.confirms = 0
        self._threads = [
            threading.Thread(target=self._again, args=(self._publish, publishing)),
            threading.Thread(target=self._again, args=(self._consume, consuming)),
        ]

    def _again(self, work: Callable[[Any], None], node: str) -> None:
        while not self._stop.is_set():
            with suppress(pika.exceptions.AMQPError, OSError), self._nodes.connect(node) as connection:
                work(connection)

    def _publish(self, connection: Any) -> None:
        channel = connection.channel()
        channel.confirm_delivery()
        while not self._stop.is_set():
            body = b"%d" % self.confirms
            with suppress(pika.exceptions.NackError):
                channel.basic_publish("", NAMES[self.confirms % len(NAMES)], body, PERSISTENT, mandatory=True)
                self.confirmed.add(body)
                self.confirms += 1

    def _consume(self, connection: Any) -> None:
        channel = connection.channel()

        def take(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            self.taken.add(body)
            channel.basic_ack(method.delivery_tag)

        for name in NAMES:
            channel.basic_consume(name, take)
        while not self._stop.is_set():
            connection.process_data_events(0.1)

    def wait_for(self, count: int) -> None:
        """Wait until so many more messages are confirmed."""
        wanted = self.confirms + count
        wait_until(lambda: self.confirms >= wanted, lambda: f"{self.confirms} of {wanted} confirmed")

    @contextmanager
    def running(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join()

    def nothing_is_lost(self, node: str) -> None:
        """Take what is left until all that was confirmed has come: what was held comes back some time later."""
        with self._nodes.connect(node) as connection:
            channel = connection.channel()

            def take() -> bool:
                for name in NAMES:
                    while (found := channel.basic_get(name, auto_ack=True))[0] is not None:
                        self.taken.add(found[2])
                return self.confirmed <= self.taken

            wait_until(take, lambda: f"lost: {sorted(self.confirmed - self.taken)}")


@pytest.fixture(scope="module")
def second() -> Iterator[PostgresServer]:
    """Another server, for a second group."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory, etcd: EtcdProcess, postgres: PostgresServer) -> Iterator[Nodes]:
    """Two nodes under TLS, which the tests here share: what one of them leaves is where the next one begins."""
    folder, store = tmp_path_factory.mktemp("nodes"), postgres.new_url(SCHEMA)
    authority = Authority(folder)
    identity = authority.issue(None, ("localhost",))
    files = {"cert": identity.cert, "key": identity.key, "ca": authority.cert}
    flags = ["--announce", "localhost", *(f"--cluster-tls-{name}={path}" for name, path in files.items())]
    with Nodes(folder, etcd.url, store, SHARDS, LEASE_S, *flags) as made:
        made.start("a", "b")
        with made.connect("a") as connection:
            for name in NAMES:
                connection.channel().queue_declare(name, durable=True)
        yield made


def test_nodes_call_each_other_by_name_and_under_tls(nodes: Nodes) -> None:
    told = nodes.operate("a", "cluster.status")["members"]
    assert [member["linked"] for member in told] == ["here", "up"]
    assert {member["addresses"]["link"].partition(":")[0] for member in told} == {"localhost"}
    assert {member["addresses"]["amqp"] for member in told} == {f"localhost:{nodes.port(name)}" for name in "ab"}


def groups(nodes: Nodes, name: str) -> list[int | None]:
    """The group of each shard."""
    return [row["group"] for row in nodes.operate(name, "cluster.status")["shards"]]


def wait_for_rows(told: Callable[[], dict[str, Any]], *wanted: dict[str, Any]) -> None:
    """Wait until groups are told of so: a node or a database that takes long to answer is left out at first."""

    def look() -> bool:
        return [{name: row[name] for name in wanted[0]} for row in told()["groups"]] == list(wanted)

    wait_until(look, told)


def wait_for_groups(nodes: Nodes, name: str, wanted: Callable[[list[int | None]], bool]) -> None:
    wait_until(lambda: wanted(groups(nodes, name)), lambda: (groups(nodes, name), nodes.log(name)[-4_000:]))


def test_shards_move_to_a_new_group_under_load(
    nodes: Nodes, second: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    url, data = second.new_url("second"), nodes.data("a")
    wait_for_groups(nodes, "a", lambda found: found == [0] * SHARDS)
    load = Load(nodes, "a", "b")
    with load.running():
        load.wait_for(50)
        assert main.main(["cluster", "add-shard-group", url, "--data", data]) == 0
        told = capsys.readouterr().out
        assert "group 1 is postgresql://" in told
        assert "shards 3, 2 move there, one by one" in told
        assert "no standby confirms its commits" in told
        wait_for_groups(nodes, "b", lambda found: found == [0, 0, 1, 1])
        load.wait_for(50)
        assert main.main(["cluster", "move-shard", "0", "1", "--data", data]) == 0
        assert "shard 0 is in group 1" in capsys.readouterr().out
        load.wait_for(50)
        wait_for_groups(nodes, "a", lambda found: found == [1, 0, 1, 1])
    load.nothing_is_lost("a")

    def status() -> Any:
        assert main.main(["cluster", "status", "--json", "--data", nodes.data("b")]) == 0
        return json.loads(capsys.readouterr().out)

    good = {"state": "reachable", "trouble": None}
    wait_for_rows(status, {"group": 0, "shards": 1, **good}, {"group": 1, "shards": 3, **good})
    assert main.main(["cluster", "status", "--data", nodes.data("b")]) == 0
    assert url in capsys.readouterr().out

    for wrong, refused in (((SHARDS, 1), InvalidArgument), ((0, 9), NotFound), ((0, 1), PreconditionFailed)):
        with pytest.raises(refused):
            nodes.operate("a", "cluster.move-shard", shard=wrong[0], group=wrong[1])
    with pytest.raises(PreconditionFailed, match="group 1 of the cluster"):
        nodes.operate("b", "cluster.add-shard-group", url=url + "&application_name=x")
    assert TRACEBACK not in nodes.log("a") + nodes.log("b")


def test_the_first_database_can_be_replaced_under_load(
    nodes: Nodes, postgres: PostgresServer, second: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    load = Load(nodes, "a", "b")
    with load.running():
        load.wait_for(20)
        assert main.main(["cluster", "move-catalog", "1", "--data", nodes.data("a")]) == 0
        assert f"start nodes with --store {second.url('second')}" in capsys.readouterr().out
        nodes.operate("a", "cluster.move-shard", shard=1, group=1)
        load.wait_for(20)
        with nodes.connect("b") as there, nodes.connect("a") as here:
            there.channel().queue_declare("made afterwards", durable=True)
            here.channel().queue_declare("made afterwards", passive=True)
    load.nothing_is_lost("a")
    left, new = {"group": 0, "shards": 0, "definitions": False}, {"group": 1, "shards": SHARDS, "definitions": True}
    wait_for_rows(lambda: nodes.operate("b", "cluster.status"), left, new)
    remove(nodes, 0)
    nodes.stop("b")
    nodes.start("b")  # with the database that it knows, which knows where to go
    nodes.use("--store", second.url("second"))
    postgres.sql(f"drop schema {SCHEMA} cascade")
    nodes.stop("a")
    nodes.start("a")
    load = Load(nodes, "a", "b")
    with load.running():
        load.wait_for(20)
        with pytest.raises(PreconditionFailed, match="already"):
            nodes.operate("a", "cluster.move-catalog", group=1)
    load.nothing_is_lost("b")
    assert TRACEBACK not in nodes.log("a") + nodes.log("b")


def test_nothing_is_lost_when_a_node_dies_during_a_move(nodes: Nodes, second: PostgresServer) -> None:
    url = second.new_url("third")
    group = nodes.operate("a", "cluster.add-shard-group", url=url, shards=0)["group"]
    load = Load(nodes, "a", "a")
    with load.running():
        mover = threading.Thread(target=move, args=(nodes, shard_of(nodes, "b"), group))
        mover.start()
        load.wait_for(10)
        nodes.kill("b")
        mover.join()
        wait_for_groups(nodes, "a", lambda found: None not in found)
        load.wait_for(20)
    load.nothing_is_lost("a")
    assert TRACEBACK not in nodes.log("a")


def remove(nodes: Nodes, group: int) -> None:
    """Remove a group, when what shards have left there is gone."""
    words = ["cluster", "remove-shard-group", str(group), "--data", nodes.data("b")]
    wait_until(lambda: main.main(words) == 0, lambda: nodes.log("b")[-4_000:])
    wait_until(
        lambda: group not in [row["group"] for row in nodes.operate("a", "cluster.status")["groups"]],
        lambda: nodes.log("a")[-4_000:],
    )


def move(nodes: Nodes, shard: int, group: int) -> None:
    """Move a shard, if that can be done."""
    with suppress(LeveretError):
        nodes.operate("a", "cluster.move-shard", shard=shard, group=group)


def shard_of(nodes: Nodes, name: str) -> int:
    """A shard that a node has, when it has got one."""
    nodes.operate(name, "cluster.rebalance")

    def look() -> list[int]:
        rows = nodes.operate("a", "cluster.status")["shards"]
        return [int(row["shard"]) for row in rows if (row["owner"], row["state"]) == (name, "active")]

    return wait_until(look)[0]


@pytest.mark.parametrize(
    ("placed", "group_count", "target", "count", "chosen"),
    [
        ([0] * 32, 2, 1, None, list(range(31, 15, -1))),
        ([0] * 16 + [1] * 16, 3, 2, None, [15, 31, 14, 30, 13, 29, 12, 28, 11, 27]),
        ([0, 0, 1, 1], 2, 1, None, []),
        ([0, 0, 0, 1], 2, 1, 2, [2, 1]),
        ([0, 1], 2, 1, 5, [0]),
        ([0, 0], 2, 1, 0, []),
    ],
)
def test_a_group_gets_its_share_from_those_that_have_most(
    placed: list[int], group_count: int, target: int, count: int | None, chosen: list[int]
) -> None:
    assert share(dict(enumerate(placed)), group_count, target, count) == chosen
