"""Clients that ask too often, on the port for SQS."""

from collections.abc import Iterator

import pytest

from leveret.runtime.shared.limits import RateLimit
from tests.protocols.sqs.world import World

BURST = 3


@pytest.fixture
def slow_world() -> Iterator[World]:
    world = World(limit=RateLimit(rate_per_s=2, burst=BURST))
    yield world
    world.end()


def test_one_request_too_many_is_told_when_to_come_again(slow_world: World) -> None:
    assert [slow_world.json("ListQueues").status for _ in range(BURST)] == [200] * BURST
    refused = slow_world.json("ListQueues")
    assert (refused.status, refused.headers["retry-after"]) == (403, "1")
    assert refused.json["__type"] == "com.amazonaws.sqs#RequestThrottled"
    assert refused.headers["x-amzn-query-error"] == "RequestThrottled;Sender"
    slow_world.later(0.5)
    assert slow_world.json("ListQueues").status == 200


def test_the_query_protocol_says_the_same(slow_world: World) -> None:
    for _ in range(BURST):
        slow_world.query("ListQueues")
    refused = slow_world.query("ListQueues")
    assert (refused.status, refused.text("Error/Code"), refused.headers["retry-after"]) == (
        403,
        "RequestThrottled",
        "1",
    )


def test_guessing_signatures_counts_for_the_address() -> None:
    world = World(auth=True, limit=RateLimit(rate_per_s=1, burst=BURST))
    codes = [world.json("ListQueues").json["__type"].partition("#")[2] for _ in range(BURST + 1)]
    assert codes == ["MissingAuthenticationTokenException"] * BURST + ["RequestThrottled"]
    world.end()
