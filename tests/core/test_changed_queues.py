"""Queues that get other arguments while they hold messages, and what is known about them beside their arguments."""

from pathlib import Path

import pytest

from leveret.core.definition_log import Kind
from leveret.core.errors import InvalidArgument, PreconditionFailed
from tests.core.world import World, take, taken


def test_other_arguments_count_from_now_on(world: World) -> None:
    queue = world.queue(visibility_timeout=100)
    world.send(queue)
    world.broker.change_queue(queue, {"x-visibility-timeout": 5_000})
    take(queue)
    world.pass_ms(4_999)
    assert taken(queue) == ""
    world.pass_ms(1)
    assert taken(queue) == "m"


def test_other_arguments_last(tmp_path: Path) -> None:
    world = World(tmp_path)
    try:
        world.broker.change_queue(world.queue(max_length=5), {"x-max-length": 2})
        world.restart()
        assert (world.again().policy.max_length, world.again().arguments) == (2, {"x-max-length": 2})
        world.compact()
        world.restart()
        assert world.again().policy.max_length == 2
    finally:
        world.close()


def test_what_is_over_a_lowered_limit_goes(world: World) -> None:
    queue = world.queue()
    world.send_all(queue, "abc")
    world.broker.change_queue(queue, {"x-max-length": 1})
    assert taken(queue) == "c"


@pytest.mark.parametrize("wrong", [{"x-max-length": "many"}, {"x-delay": -1}])
def test_arguments_that_make_no_sense_change_nothing(world: World, wrong: dict[str, object]) -> None:
    queue = world.queue(max_length=5)
    with pytest.raises(InvalidArgument):
        world.broker.change_queue(queue, wrong)
    assert queue.arguments == {"x-max-length": 5}


@pytest.mark.parametrize("fixed", [{"x-max-priority": 5}, {"x-single-active-consumer": True}])
def test_what_no_policy_can_set_cannot_be_changed(world: World, fixed: dict[str, object]) -> None:
    with pytest.raises(PreconditionFailed):
        world.broker.change_queue(world.queue(), fixed)


def test_the_details_of_a_queue_last_as_long_as_it_does(tmp_path: Path) -> None:
    world = World(tmp_path)
    try:
        world.queue()
        world.broker.define(Kind.QUEUE_DETAILS, {"vhost": "/", "name": "q", "tags": {"team": "blue"}})
        world.restart()
        details = world.broker.catalog.get(Kind.QUEUE_DETAILS, vhost="/", name="q")
        assert details is not None
        assert details["tags"] == {"team": "blue"}
        world.broker.delete_queue(world.again())
        assert world.broker.catalog.get(Kind.QUEUE_DETAILS, vhost="/", name="q") is None
        world.restart()
        assert world.broker.catalog.get(Kind.QUEUE_DETAILS, vhost="/", name="q") is None
    finally:
        world.close()
