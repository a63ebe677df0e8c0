"""The state machine of ownership, event by event; tests/sim tries the order in which nobody would write them down."""

import pytest

from leveret.cluster.coordination.etcd import KeyEvent, KeyRange, KeyValue
from leveret.cluster.coordination.keys import ClusterMembership, EtcdKeys, NodeMember, Owner, epoch_of
from leveret.cluster.coordination.ownership import (
    RANK_MS,
    REBALANCE_MS,
    RETRY_MS,
    Announce,
    Campaign,
    CheckEpoch,
    Command,
    DrainShard,
    Drop,
    Ownership,
    OwnershipPhase,
    Release,
    TakeOver,
)
from leveret.cluster.coordination.placement import assignment
from leveret.core.errors import InvalidArgument

KEYS = EtcdKeys("test")
TTL_MS = 4000
BASE = 3
SHARDS = 4


class World:
    """One node, what etcd told it, and the time."""

    def __init__(self, *nodes: str, shards: int = 1) -> None:
        """Node `a` with a lease of number 1, among others; all keys are read."""
        self.now_ms = 1000
        self.revision = 10
        self.view = ClusterMembership(KEYS, shards)
        self.node = Ownership("a", self.view, shards, BASE, TTL_MS)
        self.node.renewed(1, self.now_ms + TTL_MS)
        members = [KeyValue(KEYS.node(node), NodeMember(node).to_value(), 1, 1, 0) for node in ("a", *nodes)]
        self.view.reset(KeyRange(self.revision, members))

    def step(self, after_ms: int = 0) -> list[Command]:
        """Let time pass, with the lease renewed if there is one; what the node asks for then."""
        self.now_ms += after_ms
        if self.node.lease:
            self.node.renewed(self.node.lease, self.now_ms + TTL_MS)
        return self.node.step(self.now_ms)

    def put(self, shard: int, node: str, lease: int, epoch: int = 0) -> None:
        """Somebody writes the key of a shard, or nobody."""
        self.revision += 1
        owner = Owner(node, self.revision, lease, epoch)
        key = KEYS.shard(shard)
        found = KeyValue(key, owner.to_value(), self.revision, self.revision, lease) if node else None
        self.view.apply([KeyEvent(key, self.revision, found)])

    def activate(self, shard: int = 0) -> int:
        """Let the node win a shard and take it over; gives the epoch."""
        self.revision += 1
        self.node.campaigned(shard, self.revision, self.now_ms)
        assert self.step() == [TakeOver(shard, epoch_of(BASE, self.revision))]
        self.node.taken_over(shard, True, self.now_ms)
        assert self.step() == [Announce(shard, self.revision, epoch_of(BASE, self.revision))]
        self.revision += 1
        self.node.announced(shard, self.revision)
        return self.node.epoch(shard)


def active() -> World:
    """A node that has the only shard."""
    world = World()
    assert world.step() == [Campaign(0, 0)]
    world.activate()
    assert world.step() == []
    return world


def test_a_vacant_shard_is_won_taken_over_and_announced() -> None:
    world = active()
    assert world.node.serving() == [0]
    assert world.node.epoch(0) >> 40 == BASE
    assert world.node.proven(0, world.now_ms)


def test_nothing_is_tried_before_all_keys_were_read() -> None:
    node = Ownership("a", ClusterMembership(KEYS, 1), 1, BASE, TTL_MS)
    node.renewed(1, 10_000)
    assert node.step(0) == []


def test_a_node_waits_for_those_that_should_have_the_shard_before_it() -> None:
    world = World("b", "c", shards=32)
    first = {command.shard for command in world.step() if isinstance(command, Campaign)}
    assert first == {shard for shard, node in assignment(32, ["a", "b", "c"]).items() if node == "a"}
    second = world.step(RANK_MS)
    third = world.step(RANK_MS)
    assert len(first) + len(second) + len(third) == 32
    assert second
    assert third


def test_a_node_without_a_lease_does_not_campaign() -> None:
    world = World()
    world.node.renewed(0, 0)
    assert world.step(60_000) == []


def test_who_lost_a_campaign_waits_for_the_winner() -> None:
    world = World()
    world.step()
    world.node.campaigned(0, 0, world.now_ms)
    world.put(0, "b", 2)
    assert world.step(60_000) == []
    world.put(0, "", 0)
    assert world.step() == [Campaign(0, 0)]


def test_a_campaign_whose_answer_was_lost_is_found_in_the_view() -> None:
    world = World()
    world.step()
    world.node.campaigned(0, 0, world.now_ms)
    world.put(0, "a", 1)
    assert world.step() == []
    assert world.step(RETRY_MS) == [TakeOver(0, epoch_of(BASE, world.revision))]


def test_a_refused_takeover_gives_the_key_back_and_pauses_longer_each_time() -> None:
    world = World()
    pauses = []
    for _ in range(3):
        assert world.step() == [Campaign(0, 0)]
        world.revision += 1
        world.node.campaigned(0, world.revision, world.now_ms)
        assert len(world.step()) == 1
        world.node.taken_over(0, False, world.now_ms)
        assert world.step() == [Release(0, world.revision, "")]
        world.revision += 1
        world.node.released(0, world.revision, world.now_ms)
        begun_ms = world.now_ms
        while not world.step(RETRY_MS)[:1]:
            assert world.now_ms < begun_ms + 60_000
        pauses.append(world.now_ms - begun_ms)
        world.node.campaigned(0, 0, world.now_ms)
        world.now_ms += 60_000
    assert pauses == sorted(pauses)
    assert pauses[0] < pauses[-1]


def test_an_owner_whose_lease_has_ended_goes_on_and_gets_its_key_back() -> None:
    world = active()
    epoch = world.node.epoch(0)
    world.node.renewed(0, 0)
    world.put(0, "", 0)
    assert world.node.serving() == [0]
    assert world.step(RETRY_MS) == []
    world.node.renewed(2, world.now_ms + TTL_MS)
    assert world.step() == [Campaign(0, epoch)]
    assert world.node.serving() == [0]
    world.revision += 1
    world.node.campaigned(0, world.revision, world.now_ms)
    assert world.step() == []
    assert world.node.epoch(0) == epoch


def test_an_owner_waits_for_the_key_of_its_earlier_lease_to_go() -> None:
    world = active()
    world.node.renewed(2, world.now_ms + TTL_MS)
    assert world.step(TTL_MS // 4) == []
    world.put(0, "", 0)
    assert world.step() == [Campaign(0, world.node.epoch(0))]


def test_in_an_outage_only_a_look_at_the_epoch_proves_anything() -> None:
    world = active()
    world.node.renewed(1, world.now_ms + TTL_MS)
    world.now_ms += TTL_MS
    assert not world.node.proven(0, world.now_ms)
    assert world.node.step(world.now_ms) == [CheckEpoch(0, world.node.epoch(0))]
    assert world.node.step(world.now_ms) == []
    world.node.checked(0, True, world.now_ms)
    assert world.node.proven(0, world.now_ms + TTL_MS - 1)
    world.now_ms += TTL_MS
    assert world.node.step(world.now_ms) == [CheckEpoch(0, world.node.epoch(0))]
    world.node.checked(0, None, world.now_ms)
    assert not world.node.proven(0, world.now_ms)
    assert world.node.serving() == [0]
    assert world.node.step(world.now_ms) == [CheckEpoch(0, world.node.epoch(0))]
    world.node.checked(0, False, world.now_ms)
    assert world.node.step(world.now_ms) == [Drop(0)]


def test_appends_prove_as_much() -> None:
    world = active()
    world.node.renewed(0, 0)
    world.node.appended(0, world.now_ms)
    assert world.node.proven(0, world.now_ms + TTL_MS - 1)
    assert not world.node.proven(0, world.now_ms + TTL_MS)


def test_a_fenced_owner_drops_the_shard() -> None:
    world = active()
    world.put(0, "b", 2)
    world.node.fenced(0)
    assert not world.node.proven(0, world.now_ms)
    assert world.step() == [Drop(0)]
    world.node.dropped(0, world.now_ms)
    assert world.step(60_000) == []
    assert world.node.empty


def test_an_owner_drops_the_shard_when_the_key_is_of_another_node() -> None:
    world = active()
    world.put(0, "b", 2)
    assert world.step() == [Drop(0)]


def test_an_owner_with_the_key_who_is_fenced_by_a_latecomer_takes_over_again() -> None:
    world = active()
    world.put(0, "", 0)
    world.step(RETRY_MS)
    world.revision += 1
    world.node.campaigned(0, world.revision, world.now_ms)
    world.node.fenced(0)
    assert world.step() == [Drop(0)]
    world.node.dropped(0, world.now_ms)
    assert world.step() == [TakeOver(0, epoch_of(BASE, world.revision))]


def test_an_owner_with_the_key_of_its_own_epoch_who_is_fenced_gives_up() -> None:
    world = active()
    world.node.fenced(0)
    world.step()
    revision = world.view.owners[0].revision
    world.node.dropped(0, world.now_ms)
    assert world.step() == [Release(0, revision, "")]


def test_a_draining_node_names_its_successors_and_takes_nothing() -> None:
    world = World("b", shards=SHARDS)
    for shard in range(SHARDS):
        world.put(shard, "b", 2, 1)
    world.put(1, "", 0)
    commands = world.step(RANK_MS)
    assert commands == [Campaign(1, 0)]
    world.activate(1)
    world.node.drain()
    assert world.step() == [DrainShard(1)]
    revision = world.view.owners[1].revision
    world.node.drained(1)
    assert world.step() == [Release(1, revision, "b")]
    assert not world.node.empty
    world.revision += 1
    world.node.released(1, world.revision, world.now_ms)
    assert world.node.empty
    world.put(2, "", 0)
    assert world.step(60_000) == []


def test_a_release_whose_answer_was_lost_is_tried_again() -> None:
    world = active()
    world.node.drain()
    assert world.step() == [DrainShard(0)]
    world.node.drained(0)
    (release,) = world.step()
    world.node.released(0, 0, world.now_ms)
    assert world.step() == [release]


def test_a_shard_is_let_go_of_and_taken_again_at_once_by_the_same_node() -> None:
    world = active()
    before = world.node.epoch(0)
    world.node.retake(0)
    assert world.step() == [DrainShard(0)]
    revision = world.view.owners[0].revision
    world.node.drained(0)
    assert world.step() == [Release(0, revision, "a")]
    world.revision += 1
    world.node.released(0, world.revision, world.now_ms)
    hint = KEYS.successor(0)
    world.view.apply([KeyEvent(hint, world.revision, KeyValue(hint, "a", world.revision, world.revision, 0))])
    assert world.step() == [Campaign(0, 0)]
    assert world.activate() > before
    assert world.step(60_000) == []  # once


def test_the_named_successor_comes_first() -> None:
    mine = next(shard for shard, node in assignment(32, ["a", "b", "c"]).items() if node == "c")
    world = World("b", "c", shards=32)
    for shard in range(32):
        world.put(shard, "b", 2, 1)
    assert world.step(RETRY_MS) == []
    hint = KEYS.successor(mine)
    world.view.apply([KeyEvent(hint, 90, KeyValue(hint, "a", 90, 90, 0))])
    world.put(mine, "", 0)
    assert world.step() == [Campaign(mine, 0)]


def test_shards_move_one_by_one_to_the_nodes_that_should_have_them() -> None:
    world = World(shards=SHARDS)
    world.step()
    for shard in range(SHARDS):
        world.revision += 1
        world.node.campaigned(shard, world.revision, world.now_ms)
    world.step()
    for shard in range(SHARDS):
        world.node.taken_over(shard, True, world.now_ms)
    for command in world.step():
        world.revision += 1
        world.node.announced(command.shard, world.revision)
    key = KEYS.node("b")
    world.view.apply([KeyEvent(key, 50, KeyValue(key, NodeMember("b").to_value(), 50, 50, 2))])
    assert world.step() == []
    moved = []
    world.now_ms += REBALANCE_MS
    while drains := world.step():
        assert len(drains) == 1
        moved.append(drains[0].shard)
        assert world.step() == []
        world.node.drained(moved[-1])
        world.step()
        world.revision = max(100, world.revision + 1)
        world.node.released(moved[-1], world.revision, world.now_ms)
        assert world.step() == []
        world.put(moved[-1], "b", 2)
        assert world.step() == []
        world.put(moved[-1], "b", 2, 1)
    assert moved == [shard for shard, node in assignment(SHARDS, ["a", "b"]).items() if node == "b"]


def test_what_a_node_wrote_is_not_undone_by_older_news() -> None:
    world = World()
    world.step()
    world.node.campaigned(0, 20, world.now_ms)
    world.view.reset(KeyRange(19, [KeyValue(KEYS.node("a"), NodeMember("a").to_value(), 1, 1, 0)]))
    assert world.view.owners[0].revision == 20
    world.view.reset(KeyRange(21, [KeyValue(KEYS.node("a"), NodeMember("a").to_value(), 1, 1, 0)]))
    assert world.view.owners == {}


def test_keys_of_others_say_nothing() -> None:
    view = ClusterMembership(KEYS, 2)
    keys = ["shard/9", "shard/x", "catalog", "what/ever", "node/b", "shard/1"]
    view.reset(KeyRange(5, [KeyValue(KEYS.prefix + key, "[" * 9, 5, 5, 0) for key in keys]))
    assert view.owners == {1: Owner("", 5, 0)}
    assert list(view.members) == ["b"]
    assert view.catalog_version == 0


@pytest.mark.parametrize(("base", "revision"), [(-1, 1), (1 << 22, 1), (0, 0), (0, 1 << 40)])
def test_an_epoch_fits_into_its_bits(base: int, revision: int) -> None:
    with pytest.raises(InvalidArgument, match="epoch"):
        epoch_of(base, revision)


def test_every_revision_of_a_base_is_below_the_next_base() -> None:
    assert epoch_of(1, (1 << 40) - 1) < epoch_of(2, 1) < 1 << 62


def test_phases_begin_idle() -> None:
    assert World().node.phase(0) is OwnershipPhase.IDLE
