"""The exchange that routes to a random queue of its own node."""

from collections import Counter

import pytest

from leveret.core.errors import PreconditionFailed
from tests.core.world import World


@pytest.fixture
def exchange(world: World) -> World:
    """A world with the exchange, and three queues bound to it."""
    world.broker.declare_exchange("/", "x", "x-local-random")
    for name in "abc":
        world.queue(name)
        world.broker.bind("/", "x", name)
    return world


def depths(world: World) -> Counter[str]:
    return Counter({name: queue.depth for name, queue in world.broker.topology.vhost("/").queues.items()})


def test_each_message_goes_to_one_queue_whatever_its_key(exchange: World) -> None:
    for number in range(300):
        _, routed, _ = exchange.publish("x", f"key {number}")
        assert routed
    assert depths(exchange).total() == 300
    assert min(depths(exchange).values()) > 50


def test_queues_of_other_nodes_get_nothing(exchange: World) -> None:
    exchange.broker.topology.has_locally = lambda vhost, queue: (vhost, queue) in {("/", "b"), ("/", "c")}
    for _ in range(100):
        exchange.publish("x", "k")
    assert depths(exchange)["a"] == 0
    assert min(depths(exchange)["b"], depths(exchange)["c"]) > 25


def test_without_a_queue_of_this_node_a_message_is_unroutable(exchange: World) -> None:
    exchange.broker.topology.has_locally = lambda vhost, queue: False
    assert exchange.publish("x", "k") == (0, False, False)


def test_the_alternate_exchange_takes_what_no_queue_of_this_node_can(exchange: World) -> None:
    exchange.queue("d")
    exchange.broker.bind("/", "amq.fanout", "d")
    exchange.broker.declare_exchange("/", "y", "x-local-random", arguments={"alternate-exchange": "amq.fanout"})
    assert exchange.publish("y", "k")[1]
    assert depths(exchange)["d"] == 1


def test_bindings_that_rabbitmq_refuses_are_refused(exchange: World) -> None:
    broker = exchange.broker
    with pytest.raises(PreconditionFailed, match="Non empty binding 'k' key not permitted"):
        broker.bind("/", "x", "a", "k")
    broker.declare_queue("/", "quorum", arguments={"x-queue-type": "quorum"})
    with pytest.raises(PreconditionFailed, match="Queue type rabbit_quorum_queue not valid for this exchange type"):
        broker.bind("/", "x", "quorum")
    with pytest.raises(PreconditionFailed, match="Destination not found"):
        broker.bind("/", "x", "amq.fanout", destination_type="exchange")
    assert len(broker.topology.vhost("/").exchange("x").bindings) == 3
