"""Direct replies between clients of different nodes."""

import time

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, UnroutableError

from leveret.cluster.proxy.sessions import hand_over
from leveret.core.errors import InvalidArgument
from leveret.protocols.amqp.names import REPLY_TO, node_of_reply, reply_name
from tests.cluster.cluster import Cluster
from tests.protocols.amqp.client import World
from tests.waiting import PATIENCE_S


@pytest.mark.parametrize("node", ["", "a", "rabbit@a.example"])
def test_the_name_of_a_reply_leads_to_its_node(node: str) -> None:
    assert node_of_reply(reply_name(node)) == node


def test_a_reply_finds_the_client_of_another_node(cluster: Cluster) -> None:
    with cluster.connect("a") as one, cluster.connect("b") as two:
        asking, answering = one.channel(), two.channel()
        answering.queue_declare("work")
        answering.confirm_delivery()
        came: list[bytes] = []
        asking.basic_consume(REPLY_TO, lambda c, m, p, body: came.append(body), auto_ack=True)
        asking.basic_publish("", "work", b"question", pika.BasicProperties(reply_to=REPLY_TO))
        deadline = time.monotonic() + PATIENCE_S
        while (asked := answering.basic_get("work", auto_ack=True))[0] is None:
            assert time.monotonic() < deadline, "nobody asked"
        name = asked[1].reply_to
        assert answering.queue_declare(name, passive=True).method.queue == name
        answering.basic_publish("", name, b"answer", mandatory=True)
        while not came:
            assert time.monotonic() < deadline, "nobody answered"
            one.process_data_events(0.1)
        assert came == [b"answer"]


def test_nobody_waits_on_a_node_that_is_not_there(cluster: Cluster) -> None:
    with cluster.connect("a") as one:
        channel = one.channel()
        channel.confirm_delivery()
        with pytest.raises(UnroutableError):
            channel.basic_publish("", reply_name("gone"), b"answer", mandatory=True)
        with pytest.raises(ChannelClosedByBroker, match="404"):
            channel.queue_declare(reply_name("gone"), passive=True)


def test_what_is_no_reply_is_refused() -> None:
    world = World()
    with pytest.raises(InvalidArgument, match="no reply"):
        hand_over(world.hub, {"reply": reply_name(""), "header_len": 5}, b"four")
    assert not hand_over(world.hub, {"reply": reply_name(""), "header_len": 4}, b"four")
    world.close()
