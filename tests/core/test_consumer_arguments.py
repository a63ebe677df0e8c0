"""Arguments of consumers."""

from typing import Any

import pytest

from leveret.core.consumer_arguments import parse
from leveret.core.errors import InvalidArgument
from leveret.core.tables import Long
from tests.core.world import World


@pytest.mark.parametrize(
    ("arguments", "priority"),
    [
        ({}, 0),
        ({"x-priority": -5}, -5),
        ({"x-priority": Long(2**40)}, 2**40),
        ({"x-cancel-on-ha-failover": True, "x-unknown": 1}, 0),
    ],
)
def test_the_priority_is_any_integer(world: World, arguments: dict[str, Any], priority: int) -> None:
    assert parse(world.queue(), arguments).priority == priority


def test_the_time_to_settle_is_that_of_the_queue_unless_asked_for(world: World) -> None:
    assert parse(world.queue(), {}).timeout_ms == 0
    assert parse(world.queue(), {"x-consumer-timeout": 60_000}).timeout_ms == 60_000


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"x-priority": "high"}, ': "expected integer, got longstr"'),
        ({"x-priority": 2**63}, f": {{value_too_large,{2**63}}}"),
        ({"x-consumer-timeout": 0}, ": {value_zero,0}"),
        ({"x-cancel-on-ha-failover": 1}, ": {unacceptable_type,signedint}"),
        ({"x-stream-offset": "first"}, " of queue type rabbit_classic_queue"),
    ],
)
def test_what_a_queue_cannot_follow_is_refused(world: World, arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        parse(world.queue(), arguments)
    assert str(refusal.value) == f"invalid arg '{next(iter(arguments))}' for queue 'q' in vhost '/'{reason}"
