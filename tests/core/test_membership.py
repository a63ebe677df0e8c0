"""Members, generations and partitions of a consumer group, whatever the order of events."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core import consumer_groups as limits
from leveret.core.consumer_groups import Membership
from leveret.core.errors import InvalidArgument, StaleGeneration, TooMany

MEMBERS = st.sampled_from(["ada", "bob", "eve", "joe", "kim"])
EVENTS = st.lists(
    st.tuples(st.sampled_from(["join", "leave", "heartbeat", "expire"]), MEMBERS, st.integers(0, 40_000)), max_size=40
)


def assert_spread(group: Membership) -> None:
    """Each partition has exactly one reader, and all readers have about as many."""
    if group.members:
        assert sorted(sum(group.members.values(), ())) == list(range(group.partitions))
        counts = [len(partitions) for partitions in group.members.values()]
        assert max(counts) - min(counts) <= 1


@given(st.integers(1, 12), EVENTS)
def test_partitions_are_spread_and_generations_grow(partitions: int, events: list[tuple[str, str, int]]) -> None:
    group = Membership(partitions)
    now_ms = 0
    known: dict[str, int] = {}
    for event, name, later_ms in events:
        now_ms += later_ms
        before, members = group.generation, group.members
        if event == "join":
            assignment = group.join(name, now_ms)
            assert assignment == (group.generation, group.members[name])
            known[name] = assignment.generation
        elif event == "leave":
            group.leave(name, now_ms)
        elif event == "expire":
            group.expire(now_ms)
        else:
            generation = known.get(name, 0)
            try:
                group.heartbeat(name, generation, now_ms)
            except StaleGeneration:
                assert name not in group.members or generation != group.generation
            else:
                assert generation == group.generation
        assert group.generation > before or (group.generation == before and group.members == members)
        assert_spread(group)


@given(st.integers(1, 12), st.integers(1, 8))
def test_a_new_member_moves_no_more_partitions_than_it_gets(partitions: int, count: int) -> None:
    group = Membership(partitions)
    for number in range(count):
        before = group.members
        gained = group.join(f"m{number}", 0).partitions
        moved = [partition for name in before for partition in before[name] if partition not in group.members[name]]
        assert sorted(moved) == (list(gained) if before else [])


def test_a_member_that_is_silent_is_put_out_by_whoever_comes_next() -> None:
    group = Membership(2)
    old = group.join("ada", 0, session_ms=1_000)
    group.join("bob", 500, session_ms=5_000)
    assert group.join("bob", 1_000).partitions == (0, 1)
    with pytest.raises(StaleGeneration, match="join it again"):
        group.heartbeat("ada", old.generation, 1_001)


def test_a_heartbeat_prolongs_a_session() -> None:
    group = Membership(1)
    generation = group.join("ada", 0, session_ms=1_000).generation
    group.heartbeat("ada", generation, 900)
    assert group.expire(1_899) == []
    assert group.expire(1_900) == ["ada"]


def test_joining_again_changes_nothing_for_others() -> None:
    group = Membership(4)
    group.join("ada", 0)
    second = group.join("bob", 0)
    assert group.join("bob", 1) == second


def test_who_leaves_twice_leaves_once() -> None:
    group = Membership(1)
    group.join("ada", 0)
    group.leave("ada", 1)
    generation = group.generation
    group.leave("ada", 2)
    assert group.generation == generation


def test_more_members_than_partitions_wait() -> None:
    group = Membership(1)
    group.join("ada", 0)
    assert group.join("bob", 0).partitions == ()


def test_a_partition_of_somebody_else_is_refused() -> None:
    group = Membership(2)
    group.join("ada", 0)
    generation = group.join("bob", 0).generation
    group.check_owner("bob", generation, [1], 0)
    with pytest.raises(InvalidArgument, match="partition 0 is not assigned to member 'bob'"):
        group.check_owner("bob", generation, [0, 1], 0)


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MEMBERS_MAX", 1)
    group = Membership(1)
    group.join("ada", 0)
    with pytest.raises(TooMany, match="use another group"):
        group.join("bob", 0)
    for session_ms in (999, 3_600_001):
        with pytest.raises(InvalidArgument, match="a session is"):
            group.join("ada", 0, session_ms)
    with pytest.raises(InvalidArgument, match="shorten it"):
        group.join("a" * 256, 0)
    for partitions in (0, 1_025):
        with pytest.raises(InvalidArgument, match="partitions"):
            Membership(partitions)
