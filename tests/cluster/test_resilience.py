"""What a node goes on with although something fails: a client that cannot be let in, a log that is away, a bad peer."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from typing import Any

import pika
import pytest
from pika.exceptions import ConnectionClosedByBroker

from leveret.cluster.catalog.catalog import UNKNOWN_MAX
from leveret.cluster.catalog.log import LogEntry
from leveret.cluster.node import Node
from leveret.cluster.rpc import peers
from leveret.cluster.rpc.link import LinkStream, PeerLink
from leveret.cluster.rpc.peers import Peers
from leveret.core.errors import Unreachable
from leveret.core.properties import Properties
from leveret.wire import methods as m
from tests.cluster.cluster import Cluster, name_in
from tests.cluster.peer import Peer
from tests.rabbitmq.wire import Said, Wire
from tests.waiting import PATIENCE_S

HOME = "0"


def test_a_client_that_a_shard_cannot_let_in_waits_and_harms_nobody(cluster: Cluster) -> None:
    member = cluster.members["a"]
    node, access, shard = member.node, member.proxies.access, member.shards[HOME].shard
    assert shard is not None
    cluster.run(node.decide(lambda core: core.declare_vhost("late")))
    cluster.run(node.decide(lambda core: access.set_permission("guest", "late", ".*", ".*", ".*")))
    choose = member.catalog.replica.placements.choose
    name = next(each for each in map(str, range(100)) if choose("late", each, None) == int(HOME))

    def forget() -> None:
        with shard.hub.locked() as core:
            core.delete_vhost("late")

    with cluster.connect("a", vhost="late") as one, cluster.connect("a") as two:
        channel = one.channel()
        cluster.call(forget)
        channel.confirm_delivery()
        cluster.run(node.decide(lambda core: core.declare_queue("late", name)))
        channel._impl.basic_publish("", name, b"patience")
        one.process_data_events(0)
        cluster.wait_until(lambda: any(not shard_connection.attached for shard_connection in list(node._callers)))
        cluster.call(node.look)
        two.channel().queue_declare(name_in(0, "served"))
        assert len(shard.hub.connections) == 1
        cluster.call(lambda: shard.reconcile(member.catalog.replica))
        assert channel.queue_declare(name, passive=True).method.message_count == 1


@pytest.mark.parametrize(
    "told", [{"capabilities": {"odd": b"\xff"}}, {"capabilities": b"none"}, {"connection_name": datetime(2026, 1, 1)}]
)
def test_whatever_a_client_says_about_itself_its_shards_are_found(cluster: Cluster, told: dict[str, Any]) -> None:
    port = cluster.members["a"].port
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, client_properties=told)) as one:
        channel = one.channel()
        for shard in range(2):
            assert channel.queue_declare(name_in(shard, "found")).method.message_count == 0


class Broken:
    """A backend with which nobody can do anything."""

    shard_id, attached = HOME, False


def test_one_whose_shard_cannot_be_looked_for_does_not_keep_others_from_theirs(cluster: Cluster) -> None:
    callers: dict[Any, Any] = cluster.members["a"].node._callers
    broken = Broken()
    cluster.call(lambda: callers.update({broken: None}))
    with cluster.connect("a") as one:
        channel = one.channel()
        channel.queue_declare(name_in(0, "found"))
        cluster.move(HOME, "b")
        assert channel.queue_declare(name_in(0, "found"), passive=True).method.message_count == 0
    cluster.call(lambda: callers.pop(broken))


@pytest.mark.parametrize("goes_with", ["its connection", "its shard"])
def test_what_cannot_be_told_the_catalog_now_is_told_later(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, goes_with: str
) -> None:
    tried: list[LogEntry] = []
    name = name_in(0, "going")

    async def fail(entry: LogEntry) -> bool:
        tried.append(entry)
        raise Unreachable("the log is away")

    with cluster.connect("a") as one:
        one.channel().queue_declare(name, exclusive=goes_with == "its connection", auto_delete=True)
        monkeypatch.setattr(cluster.log, "append", fail)
        if goes_with == "its shard":  # which deletes it after its last consumer
            channel = one.channel()
            channel.basic_cancel(channel.basic_consume(name, print))
    cluster.wait_until(lambda: len(tried) > UNKNOWN_MAX)
    monkeypatch.undo()
    cluster.wait_until(lambda: ("/", name) not in cluster.members["b"].catalog.replica.shard_ids)


class Someone(asyncio.Protocol):
    """A node that is there and says one thing to whoever calls it."""

    def __init__(self, says: bytes) -> None:
        self.calls: list[asyncio.Transport] = []
        self._says = says
        self._address = ("127.0.0.1", 0)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.calls.append(transport)
        transport.write(self._says)

    def owner_of(self, shard_id: str) -> str | None:
        return None

    def address_of(self, node: str) -> tuple[str, int] | None:
        return self._address

    def nodes(self) -> list[str]:
        return ["a", "b"]

    async def meet(self) -> int:
        """How often it is called by one who looks again and again."""
        server = await asyncio.get_running_loop().create_server(lambda: self, *self._address)
        self._address = server.sockets[0].getsockname()[:2]
        others = Peers("a", self, lambda calls: PeerLink(Peer("a"), calls))
        others.look()
        while not self.calls:
            await asyncio.sleep(0.001)
        for _ in range(50):
            others.look()
            await asyncio.sleep(0.001)
        await others.leave()
        server.close()
        for call in self.calls:
            call.abort()
        await server.wait_closed()
        await asyncio.sleep(0)
        return len(self.calls)


@pytest.mark.parametrize("says", [b"", b"go away, whoever you are"])
def test_a_node_that_lets_nobody_in_is_not_called_again_at_once(says: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "PAUSE_S", 3_600)
    monkeypatch.setattr(peers, "PAUSE_S_MAX", 3_600)
    assert asyncio.run(Someone(says).meet()) == 1


def test_a_node_in_trouble_lets_publishers_of_other_nodes_wait(cluster: Cluster) -> None:
    node, name = cluster.members["b"].node, name_in(1, "waiting")
    client = Wire("127.0.0.1", cluster.members["a"].port)
    client.send(1, m.QueueDeclare(name))
    client.expect(m.QueueDeclareOk)
    cluster.call(partial(node.set_alarm, "low on memory"))
    client.send(1, m.BasicPublish("", name), Properties(), b"later")
    client.expect(m.ConnectionBlocked)
    cluster.move("0", "b")
    assert all(shard.hub.alarm == "low on memory" for shard in node.shards.values())
    cluster.call(partial(node.set_alarm, None))
    client.expect(m.ConnectionUnblocked)
    client.send(1, m.QueueDeclare(name, passive=True))
    assert client.expect(m.QueueDeclareOk) == m.QueueDeclareOk(name, 1, 0)
    client.close()


def test_a_client_goes_on_though_a_node_is_gone_whose_exclusive_queue_it_published_to(cluster: Cluster) -> None:
    asking, answering = (Wire("127.0.0.1", cluster.members[node].port) for node in "ba")
    asking.send(1, m.QueueDeclare("replies", exclusive=True))
    asking.expect(m.QueueDeclareOk)
    answering.send(1, m.ConfirmSelect())
    answering.expect(m.ConfirmSelectOk)
    answering.send(1, m.BasicPublish("", "replies"), Properties(), b"first")
    answering.expect(m.BasicAck)
    cluster.remove("b")
    answering.send(1, m.BasicRecover(True))
    assert answering.read(PATIENCE_S) == Said(1, m.BasicRecoverOk())
    answering.send(1, m.QueueDeclare(name_in(0, "mine")))
    answering.expect(m.QueueDeclareOk)
    for wire in (asking, answering):
        wire.drop()


def test_what_waits_for_a_shard_is_not_given_to_a_node_that_has_it_no_more(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals: list[str] = []
    opened = Node.opened

    def refuse(node: Node, link: PeerLink, number: int, request: dict[str, Any]) -> LinkStream:
        try:
            return opened(node, link, number, request)
        except Unreachable:
            refusals.append(node.name)
            raise

    monkeypatch.setattr(Node, "opened", refuse)
    name = name_in(1, "given")
    with cluster.connect("a") as connection, ThreadPoolExecutor(1) as threads:
        channel = connection.channel()
        channel.queue_declare(name, durable=True)
        channel.confirm_delivery()
        channel.basic_publish("", name, b"first")
        proxy = cluster.members["a"].node
        (shard_connection,) = (each for each in proxy._callers if each.shard_id == "1")
        served = cluster.call(lambda: cluster.members["b"].hand_over("1"))
        publishing = threads.submit(channel.basic_publish, "", name, b"second")
        # Others still believe that it is there, so it is asked, again and again, while something waits.
        cluster.wait_until(lambda: cluster.call(lambda: shard_connection.unsent_bytes) > 0 or publishing.done())
        before = len(refusals)
        cluster.wait_until(lambda: len(refusals) > before + 1)

        def take() -> None:
            cluster.owners["1"] = "a"
            cluster.members["a"].serve("1", served)

        cluster.call(take)
        publishing.result(PATIENCE_S)  # raises NackError if it was refused
        assert channel.queue_declare(name, passive=True).method.message_count == 2


def test_letters_for_a_node_whose_link_is_slow_stay_in_the_outbox(cluster: Cluster) -> None:
    source, target = name_in(0, "source"), name_in(1, "target")
    letters, body_bytes = 20, 100_000
    with cluster.connect("a") as connection:
        channel = connection.channel()
        channel.queue_declare(source, durable=True)
        channel.queue_declare(target, durable=True)
        channel.confirm_delivery()
        for _ in range(letters):
            channel.basic_publish("", source, b"x" * body_bytes)
        node = cluster.members["a"].node
        link, outbox = node.links["b"], node.outboxes["0"]
        cluster.call(link.pause_writing)  # as if much waited in it
        before_bytes = cluster.call(lambda: link.sent_bytes)
        assert cluster.members["a"].shards["0"].broker.queue(source).redrive(target).moved == letters
        cluster.wait_until(lambda: any(each.is_stuck for each in outbox.waiting()))
        assert cluster.call(lambda: link.sent_bytes) - before_bytes < body_bytes
        assert outbox.depth == letters
        cluster.call(link.resume_writing)
        cluster.wait_until(lambda: outbox.depth == 0)
        assert channel.queue_declare(target, passive=True).method.message_count == letters


def test_channels_are_counted_by_the_node_that_a_client_came_to(cluster: Cluster) -> None:
    member, name = cluster.members["a"], name_in(0, "shared")
    cluster.run(member.node.decide(lambda core: member.proxies.access.set_user_limits("guest", {"max-channels": 1})))
    with cluster.connect("a") as one, cluster.connect("b") as two:
        first, second = one.channel(), two.channel()
        first.queue_declare(name)
        second.queue_declare(name)
        with pytest.raises(ConnectionClosedByBroker, match="530"):
            one.channel()
