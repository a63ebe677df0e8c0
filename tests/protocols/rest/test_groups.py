"""Consumer groups over REST: members come, read, commit and go; operators look, reset and delete."""

from typing import Any

import pytest

import leveret
from tests.protocols.rest.world import RestWorld

BILLING = "/streams/clicks/groups/billing"


@pytest.fixture
def clicks(world: RestWorld) -> leveret.Stream:
    world.ok("PUT /streams/clicks", {"partitions": 4})
    stream = world.broker.stream("clicks")
    for number in range(40):
        stream.send(number, key=str(number))
    return stream


def join(world: RestWorld, member: str) -> Any:
    return world.ok(f"POST {BILLING}/join", {"member": member, "session_seconds": 10})


def test_a_group_from_start_to_end(world: RestWorld, clicks: leveret.Stream) -> None:
    joined = join(world, "a")
    assert (joined["partitions"], set(joined["offsets"].values())) == ([0, 1, 2, 3], {0})
    me = {"member": "a", "generation": joined["generation"]}
    found = world.ok(f"POST {BILLING}/poll", {**me, "offsets": joined["offsets"]})
    assert sorted(row["payload"] for row in found["records"]) == list(range(40))
    assert world.call(f"POST {BILLING}/heartbeat", me).status == 204
    assert world.call(f"POST {BILLING}/commit", {**me, "offsets": found["offsets"]}).status == 204
    shown = world.ok(f"GET {BILLING}")
    assert (shown["total_lag"], shown["offsets"]) == (0, found["offsets"])
    assert world.call(f"POST {BILLING}/leave", {"member": "a"}).status == 204
    (row,) = world.ok("GET /streams/clicks/groups")["groups"]
    assert (row["name"], row["members"]) == ("billing", {})
    assert world.call(f"DELETE {BILLING}").status == 204
    assert world.call(f"GET {BILLING}").status == 404


def test_members_share_the_partitions(world: RestWorld, clicks: leveret.Stream) -> None:
    first = join(world, "a")
    second = join(world, "b")
    stale = world.call(f"POST {BILLING}/heartbeat", {"member": "a", "generation": first["generation"]})
    assert (stale.status, stale.json["title"]) == (409, "Stale generation")
    first = join(world, "a")
    assert sorted(first["partitions"] + second["partitions"]) == [0, 1, 2, 3]
    foreign = {str(partition): 0 for partition in second["partitions"]}
    me = {"member": "a", "generation": first["generation"]}
    assert world.call(f"POST {BILLING}/commit", {**me, "offsets": foreign}).status == 400
    assert world.call(f"POST {BILLING}/poll", {**me, "offsets": foreign}).status == 400


def test_one_who_is_silent_is_put_out(world: RestWorld, clicks: leveret.Stream, clock: leveret.ManualClock) -> None:
    join(world, "a")
    join(world, "b")
    clock.advance(9)
    join(world, "b")
    clock.advance(9)
    assert list(world.ok(f"GET {BILLING}")["members"]) == ["b"]


def test_a_group_is_reset(world: RestWorld, clicks: leveret.Stream, clock: leveret.ManualClock) -> None:
    joined = join(world, "a")
    assert set(world.ok(f"POST {BILLING}/reset", {"to": "latest"})["offsets"].values()) <= set(range(40))
    assert world.ok(f"GET {BILLING}")["total_lag"] == 0
    me = {"member": "a", "generation": joined["generation"]}
    assert world.call(f"POST {BILLING}/commit", {**me, "offsets": {}}).status == 409
    world.ok(f"POST {BILLING}/reset", {"timestamp": clock.now_ms() / 1000 - 1})
    assert world.ok(f"GET {BILLING}")["total_lag"] == 40
    assert world.call(f"POST {BILLING}/reset", {"to": "latest", "timestamp": 1}).status == 400
    assert world.call(f"POST {BILLING}/reset", {}).status == 400


def test_groups_are_listed_in_pages(world: RestWorld, clicks: leveret.Stream) -> None:
    for name in ("a", "b", "c"):
        assert world.call(f"PUT /streams/clicks/groups/{name}").status == 201
    assert world.call("PUT /streams/clicks/groups/a").status == 200
    page = world.ok("GET /streams/clicks/groups?limit=2")
    assert ([row["name"] for row in page["groups"]], page["next"]) == (["a", "b"], "b")
    page = world.ok("GET /streams/clicks/groups?after=b")
    assert ([row["name"] for row in page["groups"]], page["next"]) == (["c"], None)


def test_a_group_with_members_is_not_deleted(world: RestWorld, clicks: leveret.Stream) -> None:
    join(world, "a")
    assert world.call(f"DELETE {BILLING}").status == 409


@pytest.mark.parametrize(
    "offsets", [{"x": 0}, {"4": 0}, {"0": -1}, {"0": "first"}, {"00000": 0}, {str(n): 0 for n in range(2000)}]
)
def test_offsets_that_make_no_sense_are_refused(world: RestWorld, clicks: leveret.Stream, offsets: Any) -> None:
    joined = join(world, "a")
    body = {"member": "a", "generation": joined["generation"], "offsets": offsets}
    assert world.call(f"POST {BILLING}/commit", body).status == 400
    assert world.call(f"POST {BILLING}/poll", body).status == 400


def test_a_session_has_limits(world: RestWorld, clicks: leveret.Stream) -> None:
    for seconds in (0.5, 3601):
        assert world.call(f"POST {BILLING}/join", {"member": "a", "session_seconds": seconds}).status == 400
