"""Clients of several nodes see one broker, whoever owns the shard of a queue."""

from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker, UnroutableError

from leveret.core.broker import Broker
from leveret.security.passwords import hash_password
from tests.cluster.cluster import SHARDS, Cluster, name_in
from tests.protocols.amqp.client import CHEAP
from tests.waiting import PATIENCE_S

PERSISTENT = pika.BasicProperties(delivery_mode=2)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster("a", "b", "c")
    yield made
    made.close()


@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_node_serves_every_queue(cluster: Cluster, shard: int) -> None:
    name = name_in(shard, "everywhere")
    with cluster.connect("a") as one, cluster.connect("b") as two, cluster.connect("c") as three:
        one.channel().queue_declare(name, durable=True)
        publisher = two.channel()
        publisher.confirm_delivery()
        publisher.basic_publish("", name, b"hello", PERSISTENT, mandatory=True)
        taken = three.channel().basic_get(name)
        assert taken[2] == b"hello"
        assert taken[0].message_count == 0
        one.channel().queue_delete(name)
        with pytest.raises(ChannelClosedByBroker, match="404"):
            two.channel().queue_declare(name, passive=True)


def test_a_fanout_reaches_queues_of_all_nodes(cluster: Cluster) -> None:
    with cluster.connect("a") as one, cluster.connect("b") as two:
        channel = one.channel()
        channel.exchange_declare("news", "fanout")
        names = [name_in(shard, "news") for shard in range(SHARDS)]
        for name in names:
            channel.queue_declare(name)
            channel.queue_bind(name, "news")
        publisher = two.channel()
        publisher.confirm_delivery()
        publisher.basic_publish("news", "", b"all")
        assert [channel.basic_get(name, auto_ack=True)[2] for name in names] == [b"all"] * SHARDS
        channel.exchange_delete("news")


def test_a_local_random_exchange_stays_on_the_node_of_the_publisher(cluster: Cluster) -> None:
    for shard_id in map(str, range(SHARDS)):
        if cluster.owners[shard_id] == "c":
            cluster.move(shard_id, "a")
    names = {name_in(shard, "local"): cluster.owners[str(shard)] for shard in range(SHARDS)}
    with cluster.connect("a") as one, cluster.connect("b") as two, cluster.connect("c") as three:
        channel = one.channel()
        channel.exchange_declare("local", "x-local-random")
        mine = two.channel()
        exclusive = mine.queue_declare("", exclusive=True).method.queue
        mine.queue_bind(exclusive, "local", "")
        for name in names:
            channel.queue_declare(name)
            channel.queue_bind(name, "local", "")
        for node, connection in (("a", one), ("b", two)):
            publisher = connection.channel()
            publisher.confirm_delivery()
            for _ in range(20):
                publisher.basic_publish("local", "any", node.encode(), mandatory=True)
        without = three.channel()
        without.confirm_delivery()
        with pytest.raises(UnroutableError):
            without.basic_publish("local", "any", b"c", mandatory=True)
        taken = dict.fromkeys(names, 0)
        for name, owner in names.items():
            while (body := channel.basic_get(name, auto_ack=True)[2]) is not None:
                assert body == owner.encode()
                taken[name] += 1
        left = mine.queue_declare(exclusive, passive=True).method.message_count
        assert sum(taken[name] for name in names if names[name] == "a") == 20
        assert sum(taken[name] for name in names if names[name] == "b") + left == 20


def test_an_exclusive_queue_gets_what_other_nodes_publish(cluster: Cluster) -> None:
    with cluster.connect("a") as one, cluster.connect("b") as two:
        mine = one.channel()
        name = mine.queue_declare("", exclusive=True).method.queue
        publisher = two.channel()
        publisher.confirm_delivery()
        publisher.basic_publish("", name, b"for you")
        assert mine.basic_get(name, auto_ack=True)[2] == b"for you"
        with pytest.raises(ChannelClosedByBroker, match="405"):
            two.channel().queue_declare(name, passive=True)


def test_a_consumer_goes_on_when_its_shard_moves(cluster: Cluster) -> None:
    name = name_in(1, "moving")
    with cluster.connect("a") as one, cluster.connect("c") as two:
        consumer, publisher = one.channel(), two.channel()
        consumer.queue_declare(name, durable=True)
        consumer.basic_qos(prefetch_count=1)
        publisher.confirm_delivery()
        bodies: list[bytes] = []

        def take(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            bodies.append(body)
            channel.basic_ack(method.delivery_tag)

        consumer.basic_consume(name, take)
        for round, target in enumerate("cab"):
            publisher.basic_publish("", name, f"{round} before".encode(), PERSISTENT)
            while len(bodies) < 2 * round + 1:
                one.process_data_events(0.1)
            cluster.move("1", target)
            publisher.basic_publish("", name, f"{round} after".encode(), PERSISTENT)
            while len(bodies) < 2 * round + 2:
                one.process_data_events(0.1)
        assert bodies == [f"{round} {when}".encode() for round in range(3) for when in ("before", "after")]


@pytest.mark.parametrize("at", ["a", "b"])
def test_a_client_keeps_what_it_holds_when_its_shard_moves(cluster: Cluster, at: str) -> None:
    name = name_in(1, "held")
    with cluster.connect(at) as one:
        channel = one.channel()
        channel.queue_declare(name, durable=True)
        channel.confirm_delivery()
        for number in range(3):
            channel.basic_publish("", name, b"%d" % number, PERSISTENT)
        came: list[tuple[int, bytes]] = []
        channel.basic_consume(name, lambda _, method, properties, body: came.append((method.delivery_tag, body)))
        while len(came) < 3:
            one.process_data_events(0.1)
        channel.basic_ack(1)
        cluster.move("1", "a" if cluster.owners["1"] != "a" else "c")
        channel.basic_ack(2)
        channel.basic_publish("", name, b"next", PERSISTENT)
        while len(came) < 4:
            one.process_data_events(0.1)
        assert came == [(1, b"0"), (2, b"1"), (3, b"2"), (4, b"next")]
        channel.basic_nack(3)
        while len(came) < 5:
            one.process_data_events(0.1)
        assert came[4] == (5, b"2")


def test_a_reader_of_a_stream_goes_on_after_its_shard_has_moved(cluster: Cluster) -> None:
    name = name_in(1, "log")
    with cluster.connect("a") as one, cluster.connect("c") as two:
        reader, publisher = one.channel(), two.channel()
        reader.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
        publisher.confirm_delivery()
        reader.basic_qos(prefetch_count=10)
        bodies: list[bytes] = []

        def take(channel: Any, method: Any, properties: Any, body: bytes) -> None:
            bodies.append(body)
            channel.basic_ack(method.delivery_tag)

        reader.basic_consume(name, take, arguments={"x-stream-offset": "first"})
        for number, target in enumerate("cab"):
            publisher.basic_publish("", name, b"%d" % number, PERSISTENT)
            while len(bodies) <= number:
                one.process_data_events(0.1)
            cluster.move("1", target)
        assert bodies == [b"0", b"1", b"2"]


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_consumer_ends_at_every_node_with_its_permission(cluster: Cluster, shard: int) -> None:
    name, member = name_in(shard, "revoked"), cluster.members["c"]
    access = member.proxies.access

    def add(core: Broker) -> None:
        access.add_user("ann", hash_password("secret", CHEAP))
        access.set_permission("ann", "/", ".*", ".*", ".*")

    cluster.run(member.node.decide(add))
    with cluster.connect("b") as other, cluster.connect("a", "ann", "secret") as connection:
        publisher, channel = other.channel(), connection.channel()
        publisher.confirm_delivery()
        channel.queue_declare(name)
        got: list[bytes] = []
        cancelled: list[str] = []
        channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
        tag = channel.basic_consume(name, lambda *came: got.append(came[3]), auto_ack=True)
        publisher.basic_publish("", name, b"before")
        while not got:
            connection.process_data_events(1)
        cluster.run(member.node.decide(lambda core: access.set_permission("ann", "/", ".*", ".*", "^other$")))
        publisher.basic_publish("", name, b"after")
        while not cancelled:
            connection.process_data_events(1)
        assert cancelled == [tag]
        connection.process_data_events(0)
        assert got == [b"before"]
        assert publisher.basic_get(name, auto_ack=True)[2] == b"after"
        cluster.run(member.node.decide(lambda core: access.delete_user("ann")))
        with pytest.raises(ConnectionClosedByBroker, match="user 'ann' is deleted"):
            connection.sleep(PATIENCE_S)
