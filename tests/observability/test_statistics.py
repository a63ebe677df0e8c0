from typing import Any

import pytest

from leveret.observability.statistics import gained, graveyards, look, quantile
from tests.core.world import World, ack, take


@pytest.fixture
def world() -> World:
    return World()


def test_a_look_tells_what_a_queue_holds(world: World) -> None:
    queue = world.queue()
    world.send_all(queue, "abc")
    world.pass_ms(400)
    take(queue)
    found = look(queue)
    assert (found.ready, found.leased, found.consumers, found.waits_ms) == (2, 1, 0, 400)
    assert look(world.queue("empty")).waits_ms is None


def test_two_looks_tell_what_happened_between_them(world: World) -> None:
    queue = world.queue()
    world.send_all(queue, "ab")
    first, second = take(queue, 2)
    ack(first)
    before = look(queue)
    world.pass_ms(40_000)
    ack(second)
    assert quantile(gained(look(queue).processing, before.processing), 0.95) == pytest.approx(65_536 - 1_638.4)


def test_deaths_and_failures_are_told_apart(world: World) -> None:
    queue = world.queue(max_length=2)
    world.send_all(queue, "abc")
    held, other = take(queue, 2)
    queue.reject(held, held.lease)
    queue.nack(other, other.lease, 0)
    assert (look(queue).dead, look(queue).failed) == (2, 2)


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
