"""Placement: stable, even, and with dead letters beside their source."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.cluster.coordination.placement import Placements, assignment, preference, stable_hash
from leveret.core.errors import InvalidArgument

NODES = st.lists(st.text("abcdef", min_size=1, max_size=4), min_size=1, max_size=7, unique=True)
TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


def test_hashes_are_those_of_every_other_release() -> None:
    assert stable_hash("queue", "/", "orders") % 32 == 31
    assert preference(0, ["a", "b", "c"]) == ["c", "b", "a"]


def test_parts_of_a_hash_do_not_flow_into_each_other() -> None:
    assert stable_hash("a", "bc") != stable_hash("ab", "c")


@given(NODES)
def test_every_shard_has_a_node_and_no_node_more_than_its_share(nodes: list[str]) -> None:
    found = assignment(32, nodes)
    assert sorted(found) == list(range(32))
    assert max(Counter(found.values()).values()) <= -(-32 // len(nodes))
    assert found == assignment(32, nodes[::-1])


@given(NODES)
def test_a_node_that_goes_leaves_the_order_of_the_others(nodes: list[str]) -> None:
    rest = [node for node in preference(7, nodes) if node != nodes[0]]
    assert preference(7, nodes[1:]) == rest


def test_nobody_is_assigned_anything_where_nobody_is() -> None:
    assert assignment(32, []) == {}


def test_queues_are_spread() -> None:
    placements = Placements()
    used = Counter(placements.choose("/", f"queue-{number}", None) for number in range(3200))
    assert len(used) == 32
    assert max(used.values()) < 200


@pytest.mark.parametrize("first", ["work", "dead"])
def test_a_queue_and_its_dead_letters_are_in_one_shard_whichever_comes_first(first: str) -> None:
    placements = Placements()
    arguments = {"work": TO_DEAD, "dead": None}
    shards = []
    for name in sorted(arguments, key=lambda name: name != first):
        shards.append(placements.choose("/", name, arguments[name]))
        placements.put("/", name, arguments[name], shards[-1])
    assert shards[0] == shards[1]


def test_a_queue_for_the_dead_letters_of_many_draws_only_the_first() -> None:
    placements = Placements()
    dead = placements.choose("/", "dead", None)
    placements.put("/", "dead", None, dead)
    chosen = []
    for number in range(64):
        chosen.append(placements.choose("/", f"work-{number}", TO_DEAD))
        placements.put("/", f"work-{number}", TO_DEAD, chosen[-1])
    assert chosen[0] == dead
    assert len(set(chosen)) > 10


def test_what_is_gone_draws_nobody() -> None:
    placements = Placements()
    alone = placements.choose("/", "dead", None)
    placements.put("/", "work", TO_DEAD, (alone + 1) % 32)
    placements.put("other", "work", TO_DEAD, (alone + 2) % 32)
    assert placements.choose("/", "dead", None) == (alone + 1) % 32
    placements.drop("/", "work")
    assert placements.choose("/", "dead", None) == alone


@pytest.mark.parametrize("shards", [0, 1025])
def test_a_number_of_shards_has_its_limits(shards: int) -> None:
    with pytest.raises(InvalidArgument, match="shards"):
        Placements(shards)


def test_a_shard_that_the_cluster_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="shard 4"):
        Placements(4).put("/", "work", None, 4)
