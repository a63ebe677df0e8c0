"""The random exchange."""

from collections import Counter

from tests.core.world import World


def test_each_message_goes_to_one_queue_and_none_is_left_out(world: World) -> None:
    world.broker.declare_exchange("/", "x", "x-random")
    queues = [world.queue(name) for name in "abc"]
    for queue in queues:
        world.broker.bind("/", "x", queue.name)
    for _ in range(300):
        _, routed, _ = world.publish("x", "same key")
        assert routed
    depths = Counter({queue.name: queue.depth for queue in queues})
    assert depths.total() == 300
    assert min(depths.values()) > 50


def test_without_bindings_nothing_is_routed(world: World) -> None:
    world.broker.declare_exchange("/", "x", "x-random")
    assert world.publish("x", "k") == (0, False, False)
