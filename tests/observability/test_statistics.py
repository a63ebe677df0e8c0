from typing import Any

import pytest

from leveret.core.histogram import quantile
from leveret.core.tally import times
from leveret.observability.statistics import gained, graveyards
from tests.core.world import World, ack, take


@pytest.fixture
def world() -> World:
    return World()


def test_two_looks_tell_what_happened_between_them(world: World) -> None:
    queue = world.queue()
    world.send_all(queue, "ab")
    first, second = take(queue, 2)
    ack(first)
    before = times(queue)
    assert before is not None
    counted = before[1].buckets
    world.pass_ms(40_000)
    ack(second)
    after = times(queue)
    assert after is not None
    assert quantile(gained(after[1].buckets, counted), 0.95) == pytest.approx(65_536 - 1_638.4)


@pytest.mark.parametrize("arguments", [{"dead_letter_routing_key": "k"}, {}])
def test_queues_that_others_send_their_dead_to_are_graveyards(world: World, arguments: dict[str, Any]) -> None:
    broker = world.broker
    home = broker.topology.vhost("/")
    broker.declare_exchange("/", "dead", "direct")
    dead, other = world.queue("dead"), world.queue("other")
    broker.bind("/", "dead", "dead", "k")
    queue = world.queue(dead_letter_exchange="dead", **arguments)
    assert graveyards(broker, home.queues.values()) == {dead}
    assert graveyards(broker, [dead, other]) == set()
    assert queue.policy.dead_letter_exchange == "dead"


def test_the_default_exchange_leads_to_the_queue_that_is_named(world: World) -> None:
    dead = world.queue("dead")
    queue = world.queue(dead_letter_exchange="", dead_letter_routing_key="dead")
    lost = world.queue("lost", dead_letter_exchange="nowhere")
    assert graveyards(world.broker, [queue, lost]) == {dead}
