"""Offsets of consumer groups: who may commit them, how far they are behind, and that they last."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leveret.core import consumer_groups as limits
from leveret.core.consumer_groups import OFFSET_MAX, ConsumerGroup, ConsumerGroups
from leveret.core.definition_log import Kind
from leveret.core.errors import InvalidArgument, NotFound, PreconditionFailed, StaleGeneration, TooMany, VhostNotFound
from tests.core.world import World


class Fixed:
    """A stream whose partitions hold the offsets from 10 to 110, one record in each ms."""

    def earliest(self, partition: int) -> int:
        return 10

    def latest(self, partition: int) -> int:
        return 110 + partition

    def at(self, partition: int, timestamp_ms: int) -> int:
        return 10 + timestamp_ms


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[World]:
    """A world that can be restarted."""
    world = World(tmp_path)
    yield world
    world.close()


@pytest.fixture
def groups() -> ConsumerGroups:
    return ConsumerGroups(World().broker)


def declared(groups: ConsumerGroups, partitions: int = 2) -> ConsumerGroup:
    return groups.declare("/", "events", "billing", partitions)


def replayed(disk: World) -> None:
    disk.restart()


def compacted(disk: World) -> None:
    disk.compact()
    disk.restart()


def checkpointed(disk: World) -> None:
    disk.disk().close()
    disk.open()


@pytest.mark.parametrize("come_back", [replayed, compacted, checkpointed])
def test_offsets_and_generations_survive(disk: World, come_back: Callable[[World], None]) -> None:
    group = declared(ConsumerGroups(disk.broker))
    old = group.join("ada", 0)
    group.commit("ada", old.generation, {0: 40, 1: 7}, 0)
    group.commit("ada", old.generation, {0: 50}, 0)
    come_back(disk)
    found = ConsumerGroups(disk.broker).get("/", "events", "billing")
    assert found.offsets == {0: 50, 1: 7}
    with pytest.raises(StaleGeneration):
        found.commit("ada", old.generation, {0: 60}, 1)
    assert found.join("ada", 1).generation > old.generation


def test_a_deleted_group_stays_deleted(disk: World) -> None:
    groups = ConsumerGroups(disk.broker)
    group = declared(groups)
    generation = group.join("ada", 0).generation
    group.commit("ada", generation, {0: 5}, 0)
    with pytest.raises(PreconditionFailed, match="let them leave first"):
        groups.delete("/", "events", "billing", 0)
    group.leave("ada", 0)
    groups.delete("/", "events", "billing", 0)
    disk.restart()
    assert list(ConsumerGroups(disk.broker)) == []
    assert declared(ConsumerGroups(disk.broker)).offsets == {}


def test_groups_go_with_their_stream_and_with_their_vhost(disk: World) -> None:
    disk.broker.declare_vhost("team")
    groups = ConsumerGroups(disk.broker)
    for vhost, stream in (("/", "events"), ("/", "orders"), ("team", "events")):
        group = groups.declare(vhost, stream, "billing", 1)
        group.commit("ada", group.join("ada", 0).generation, {0: 3}, 0)
    groups.delete_stream("/", "events")
    disk.broker.delete_vhost("team")
    groups.delete_vhost("team")
    left = [("/", "orders")]
    assert [(group.vhost, group.stream) for group in groups] == left
    disk.restart()
    assert [(group.vhost, group.stream) for group in ConsumerGroups(disk.broker)] == left


def test_offsets_whose_group_was_lost_do_not_keep_a_salvaged_broker_from_starting(disk: World) -> None:
    group = declared(ConsumerGroups(disk.broker))
    group.commit("ada", group.join("ada", 0).generation, {0: 5}, 0)
    disk.broker.undefine(Kind.CONSUMER_GROUP, {"vhost": "/", "stream": "events", "name": "billing"})
    assert list(ConsumerGroups(disk.broker)) == []


def test_a_commit_of_an_older_generation_is_refused(groups: ConsumerGroups) -> None:
    group = declared(groups)
    old = group.join("ada", 0)
    group.commit("ada", old.generation, {0: 5}, 0)
    group.join("bob", 0)
    with pytest.raises(StaleGeneration, match="join it again"):
        group.commit("ada", old.generation, {0: 6}, 0)
    assert group.offsets == {0: 5}


def test_a_commit_is_taken_whole_or_not_at_all(groups: ConsumerGroups) -> None:
    group = declared(groups)
    group.join("ada", 0)
    mine = group.join("bob", 0)
    for foreign in ({0: 9, 1: 9}, {1: -1}, {1: OFFSET_MAX + 1}, {7: 1}):
        with pytest.raises(InvalidArgument):
            group.commit("bob", mine.generation, foreign, 0)
    assert group.offsets == {}


def test_lag_counts_what_can_still_be_read(groups: ConsumerGroups) -> None:
    group = declared(groups, partitions=3)
    generation = group.join("ada", 0).generation
    group.commit("ada", generation, {0: 3, 1: 100}, 0)
    assert group.lag(Fixed()) == {0: 100, 1: 11, 2: 102}


@pytest.mark.parametrize(("to", "offsets"), [("earliest", [10, 10]), ("latest", [110, 111]), (25, [35, 35])])
def test_a_reset_moves_every_partition_and_sends_members_away(
    groups: ConsumerGroups, to: limits.Target, offsets: list[int]
) -> None:
    group = declared(groups)
    generation = group.join("ada", 0).generation
    assert list(group.reset(Fixed(), to).values()) == offsets
    with pytest.raises(StaleGeneration):
        group.commit("ada", generation, {0: 99}, 0)
    assert [group.position(partition, Fixed()) for partition in (0, 1)] == offsets


def test_expiry_hands_partitions_over(groups: ConsumerGroups) -> None:
    group = declared(groups)
    group.join("ada", 0, session_ms=1_000)
    group.join("bob", 0, session_ms=9_000)
    groups.expire(1_000)
    assert group.membership.members == {"bob": (0, 1)}


def test_refusals(groups: ConsumerGroups, monkeypatch: pytest.MonkeyPatch) -> None:
    declared(groups)
    with pytest.raises(PreconditionFailed, match="reads 2 partitions, not 3"):
        declared(groups, partitions=3)
    with pytest.raises(NotFound, match="no group 'unknown'"):
        groups.get("/", "events", "unknown")
    with pytest.raises(VhostNotFound):
        groups.declare("nowhere", "events", "billing", 1)
    monkeypatch.setattr(limits, "GROUPS_MAX", 1)
    with pytest.raises(TooMany, match="delete some"):
        groups.declare("/", "events", "other", 1)
