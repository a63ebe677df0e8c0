"""Which shards a node has: a state machine without I/O. Time, answers and what etcd says come in, commands go out.

    idle --> campaigning --won--> taking --taken over--> active --to another node--> draining --> releasing --> idle
                 |                  |                     |  ^
               lost: idle     refused: releasing          |  +-- reclaiming <-- the key is gone
                                                          +-- fenced, or the key is of another node: dropping --> idle

etcd only decides who tries. What makes an owner the owner is its epoch in the journal: an active one goes on without
its key, and without etcd, for as long as its appends are accepted, and tries to get the key back meanwhile. What
appends cannot prove on an idle shard, that no other node has it, is proved by the lease or by a look at the epoch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from leveret.cluster.coordination.keys import ClusterMembership, Owner, epoch_of
from leveret.cluster.coordination.placement import assignment, preference


class Campaign(NamedTuple):
    """Create the key of a shard; `epoch` is that of an active owner who has lost its key, or 0."""

    shard: int
    epoch: int


class TakeOver(NamedTuple):
    """Raise the epoch of a shard in its journal, if it is lower, and read the journal."""

    shard: int
    epoch: int


class Announce(NamedTuple):
    """Write into the key of a shard that its owner is active."""

    shard: int
    revision: int
    epoch: int


class CheckEpoch(NamedTuple):
    """Look whether the journal of a shard still has this epoch."""

    shard: int
    epoch: int


class DrainShard(NamedTuple):
    """Take nothing more for a shard, finish what was taken, write a checkpoint, let go of it."""

    shard: int


class Drop(NamedTuple):
    """Forget a shard: another node has it."""

    shard: int


class Release(NamedTuple):
    """Remove the key of a shard, and say who should be next."""

    shard: int
    revision: int
    successor: str


Command = Campaign | TakeOver | Announce | CheckEpoch | DrainShard | Drop | Release


RANK_MS = 200  # how long each node lets the one before it try
RETRY_MS = 500
RETRY_MS_MAX = 5_000  # a database that comes back is not missed for longer
REBALANCE_MS = 10_000  # after the last change of members
DRAINS_MAX = 4  # shards that a leaving node moves at a time


class OwnershipPhase(Enum):
    """Where a node is with a shard."""

    IDLE = auto()
    CAMPAIGNING = auto()
    TAKING = auto()
    ACTIVE = auto()
    RECLAIMING = auto()
    DRAINING = auto()
    RELEASING = auto()
    DROPPING = auto()


SERVING = frozenset({OwnershipPhase.ACTIVE, OwnershipPhase.RECLAIMING})
MOVING = frozenset({OwnershipPhase.DRAINING, OwnershipPhase.RELEASING})


@dataclass(slots=True)
class Tenure:
    """One shard as one node has it."""

    shard: int
    phase: OwnershipPhase = OwnershipPhase.IDLE
    revision: int = 0
    """Of the key that this node has, or had last."""
    lease: int = 0
    epoch: int = 0
    fenced: bool = False
    checking: bool = False
    retaking: bool = False
    """Whether this node lets go of the shard only to take it over again."""
    successor: str = ""
    vacant_ms: int | None = None
    """Since when no node has the key."""
    retry_ms: int = 0
    """Not before this time is anything tried again."""
    pause_ms: int = RETRY_MS
    proven_ms: int = 0
    """Until when the journal has proved that no other node is the owner."""


class Ownership:
    """The shards of one node."""

    def __init__(self, node: str, view: ClusterMembership, shards: int, base: int, ttl_ms: int) -> None:
        """Have none; `base` is that of epochs, `ttl_ms` that of leases."""
        self.node = node
        self.view = view
        self.draining = False
        self.lease = 0
        self._lease_until_ms = 0
        self._base = base
        self._ttl_ms = ttl_ms
        self._tenures = [Tenure(shard) for shard in range(shards)]
        self._staying: list[str] = []
        self._assigned: dict[int, str] = {}
        self._rebalance_at_ms: int | None = None
        self._asked: list[Command] = []
        self._by_phase: dict[OwnershipPhase, Callable[[Tenure, int], None]] = {
            OwnershipPhase.IDLE: self._idle,
            OwnershipPhase.ACTIVE: self._active,
        }

    # What others ask

    def phase(self, shard: int) -> OwnershipPhase:
        return self._tenures[shard].phase

    def epoch(self, shard: int) -> int:
        """The epoch of a shard that this node serves, or 0."""
        tenure = self._tenures[shard]
        return tenure.epoch if tenure.phase in SERVING else 0

    def serving(self) -> list[int]:
        return [tenure.shard for tenure in self._tenures if tenure.phase in SERVING]

    @property
    def empty(self) -> bool:
        """Whether this node has nothing to do with any shard."""
        return all(tenure.phase is OwnershipPhase.IDLE and not self._has_key(tenure) for tenure in self._tenures)

    def proven(self, shard: int, now_ms: int) -> bool:
        """Whether no other node can own a shard now: only then deliveries may begin that no append will confirm."""
        tenure = self._tenures[shard]
        return tenure.phase in SERVING and not tenure.fenced and now_ms < self._proof_ms(tenure)

    # What happens

    def renewed(self, lease: int, until_ms: int) -> None:
        """This node has a lease for some time, counted from when it was asked for; 0 when it has none any more."""
        self.lease = lease
        self._lease_until_ms = until_ms if lease else 0

    def drain(self) -> None:
        """Give every shard away, and take none."""
        self.draining = True

    def rebalance(self, now_ms: int) -> None:
        """Do not wait before shards go to the nodes that should have them."""
        self._look_at_members(now_ms)
        self._rebalance_at_ms = now_ms

    def retake(self, shard: int) -> None:
        """Let go of a shard as soon as it is active, to take it over again at another epoch."""
        self._tenures[shard].retaking = True

    def fenced(self, shard: int) -> None:
        """The journal of a shard has another epoch: another node has it."""
        self._tenures[shard].fenced = True

    def appended(self, shard: int, now_ms: int) -> None:
        """The journal of a shard took an append that was sent at this time."""
        tenure = self._tenures[shard]
        tenure.proven_ms = max(tenure.proven_ms, now_ms + self._ttl_ms)

    def campaigned(self, shard: int, revision: int, now_ms: int) -> None:
        """The answer to Campaign: the revision of the key, or 0 when there was none or it is another node's."""
        tenure = self._answered(shard, OwnershipPhase.CAMPAIGNING, OwnershipPhase.RECLAIMING)
        if tenure.phase is OwnershipPhase.RECLAIMING:
            tenure.phase = OwnershipPhase.ACTIVE
            epoch = tenure.epoch
        else:
            tenure.phase = OwnershipPhase.IDLE
            epoch = 0
        tenure.retry_ms = now_ms + RETRY_MS
        if revision:
            self.view.wrote(shard, revision, Owner(self.node, revision, self.lease, epoch))
            self._hold(tenure, revision)

    def taken_over(self, shard: int, taken: bool, now_ms: int) -> None:
        """The answer to TakeOver; not taken when another node has a higher epoch, or the journal cannot be reached."""
        tenure = self._answered(shard, OwnershipPhase.TAKING)
        if taken:
            tenure.phase = OwnershipPhase.ACTIVE
            tenure.fenced = tenure.retaking = False
            tenure.pause_ms = RETRY_MS
            tenure.retry_ms = 0
            self.appended(shard, now_ms)
            self._active(tenure, now_ms)
        else:
            self._give_up(tenure, now_ms)

    def announced(self, shard: int, revision: int) -> None:
        """The answer to Announce: the revision after it, or 0 when the outcome is unknown."""
        tenure = self._tenures[shard]
        owner = self.view.owners.get(shard)
        if revision and owner is not None and owner.revision == tenure.revision:
            self.view.wrote(shard, revision, Owner(self.node, owner.revision, owner.lease, tenure.epoch))

    def checked(self, shard: int, mine: bool | None, asked_ms: int) -> None:
        """The answer to Check; None when the journal cannot be reached."""
        tenure = self._tenures[shard]
        tenure.checking = False
        if mine:
            self.appended(shard, asked_ms)
        elif mine is False and tenure.phase in SERVING:
            tenure.fenced = True

    def drained(self, shard: int) -> None:
        tenure = self._answered(shard, OwnershipPhase.DRAINING)
        self._release(tenure)

    def dropped(self, shard: int, now_ms: int) -> None:
        """The answer to Drop: this node has nothing of the shard any more."""
        tenure = self._answered(shard, OwnershipPhase.DROPPING)
        tenure.phase = OwnershipPhase.IDLE
        tenure.fenced = False
        owner = self.view.owners.get(shard)
        if owner is None or not self._is_mine(owner):
            return
        if epoch_of(self._base, owner.revision) > tenure.epoch:
            # A node that had the key before this node got it back has come late: it is this node's turn again.
            self._hold(tenure, owner.revision)
        else:
            self._give_up(tenure, now_ms)

    def released(self, shard: int, revision: int, now_ms: int) -> None:
        """The answer to Release: the revision after it, or 0 when the outcome is unknown."""
        tenure = self._answered(shard, OwnershipPhase.RELEASING)
        tenure.phase = OwnershipPhase.IDLE
        again = tenure.successor == self.node
        tenure.retry_ms = now_ms if again else max(tenure.retry_ms, now_ms + RETRY_MS)
        tenure.vacant_ms = None
        if revision:
            self.view.wrote(shard, revision, None)

    # What to do now

    def step(self, now_ms: int) -> list[Command]:
        """Everything that has become due; to be called when something happened, and several times in RANK_MS."""
        if not self.view.known:
            return []
        self._look_at_members(now_ms)
        for tenure in self._tenures:
            if act := self._by_phase.get(tenure.phase):
                act(tenure, now_ms)
            self._prove(tenure, now_ms)
        asked, self._asked = self._asked, []
        return asked

    def _look_at_members(self, now_ms: int) -> None:
        staying = sorted(node for node in self.view.staying if not (self.draining and node == self.node))
        if staying != self._staying:
            self._staying = staying
            self._assigned = assignment(len(self._tenures), staying)
            self._rebalance_at_ms = now_ms + REBALANCE_MS

    def _idle(self, tenure: Tenure, now_ms: int) -> None:
        owner = self.view.owners.get(tenure.shard)
        if owner is not None:
            tenure.vacant_ms = None
            if self._is_mine(owner) and (self.draining or now_ms >= tenure.retry_ms):
                # The answer to a campaign or to a release was lost.
                resume = self._release if self.draining else self._hold
                resume(tenure, owner.revision)
            return
        tenure.vacant_ms = now_ms if tenure.vacant_ms is None else tenure.vacant_ms
        rank = self._rank(tenure.shard)
        if rank is None or not self._has_lease(now_ms):
            return
        if now_ms >= max(tenure.retry_ms, tenure.vacant_ms + rank * RANK_MS):
            tenure.phase = OwnershipPhase.CAMPAIGNING
            self._asked.append(Campaign(tenure.shard, 0))

    def _active(self, tenure: Tenure, now_ms: int) -> None:
        owner = self.view.owners.get(tenure.shard)
        if tenure.fenced or (owner is not None and owner.node != self.node):
            tenure.phase = OwnershipPhase.DROPPING
            self._asked.append(Drop(tenure.shard))
        elif owner is None or not self._is_mine(owner):
            # Also when it is the key of an earlier lease of this node, which is about to go.
            if owner is None and self._has_lease(now_ms) and now_ms >= tenure.retry_ms:
                tenure.phase = OwnershipPhase.RECLAIMING
                self._asked.append(Campaign(tenure.shard, tenure.epoch))
        elif owner.epoch != tenure.epoch:
            if now_ms >= tenure.retry_ms:
                tenure.retry_ms = now_ms + RETRY_MS
                self._asked.append(Announce(tenure.shard, tenure.revision, tenure.epoch))
        else:
            successor = self._successor(tenure, now_ms)
            if successor is not None:
                tenure.successor = successor
                tenure.phase = OwnershipPhase.DRAINING
                self._asked.append(DrainShard(tenure.shard))

    def _successor(self, tenure: Tenure, now_ms: int) -> str | None:
        """Who should get a shard from this node now; None when it stays. A leaving node may have no successor to
        name.
        """
        moving = sum(each.phase in MOVING for each in self._tenures)
        retaking, tenure.retaking = tenure.retaking, False
        if self.draining:
            return self._assigned.get(tenure.shard, "") if moving < DRAINS_MAX else None
        if retaking:
            return self.node
        if moving or self._rebalance_at_ms is None or now_ms < self._rebalance_at_ms:
            return None
        # One by one: only while every shard has an active owner.
        if any(tenure.shard not in self.view.owners for tenure in self._tenures):
            return None
        if not all(owner.epoch for owner in self.view.owners.values()):
            return None
        preferred = self._assigned.get(tenure.shard, self.node)
        return None if preferred == self.node else preferred

    def _prove(self, tenure: Tenure, now_ms: int) -> None:
        """Look at the epoch while the lease proves nothing."""
        if tenure.phase not in SERVING or tenure.checking or tenure.fenced:
            return
        if now_ms > self._proof_ms(tenure) - self._ttl_ms // 2:
            tenure.checking = True
            self._asked.append(CheckEpoch(tenure.shard, tenure.epoch))

    # Steps that several paths share

    def _hold(self, tenure: Tenure, revision: int) -> None:
        """The key is this node's: take the shard over, unless it is active already."""
        tenure.revision = revision
        tenure.lease = self.lease
        if tenure.phase is not OwnershipPhase.ACTIVE:
            tenure.phase = OwnershipPhase.TAKING
            tenure.epoch = epoch_of(self._base, revision)
            self._asked.append(TakeOver(tenure.shard, tenure.epoch))

    def _give_up(self, tenure: Tenure, now_ms: int) -> None:
        """Let others try, and do not try again soon."""
        tenure.retry_ms = now_ms + tenure.pause_ms
        tenure.pause_ms = min(2 * tenure.pause_ms, RETRY_MS_MAX)
        tenure.successor = ""
        self._release(tenure)

    def _release(self, tenure: Tenure, revision: int = 0) -> None:
        tenure.phase = OwnershipPhase.RELEASING
        self._asked.append(Release(tenure.shard, revision or tenure.revision, tenure.successor))

    def _answered(self, shard: int, *phases: OwnershipPhase) -> Tenure:
        tenure = self._tenures[shard]
        assert tenure.phase in phases, f"shard {shard} is {tenure.phase}: that was not requested"
        return tenure

    def _rank(self, shard: int) -> int | None:
        """How many nodes may try before this one; None when this one may not."""
        if self.node not in self._staying:
            return None
        first = [self.view.successors.get(shard, ""), self._assigned[shard]]
        order = dict.fromkeys([*first, *preference(shard, self._staying)])
        return [node for node in order if node in self._staying].index(self.node)

    def _is_mine(self, owner: Owner) -> bool:
        return owner.node == self.node and owner.lease == self.lease != 0

    def _has_key(self, tenure: Tenure) -> bool:
        owner = self.view.owners.get(tenure.shard)
        return owner is not None and self._is_mine(owner)

    def _has_lease(self, now_ms: int) -> bool:
        return self.lease != 0 and now_ms < self._lease_until_ms

    def _proof_ms(self, tenure: Tenure) -> int:
        leased = self._lease_until_ms if tenure.lease == self.lease and self._has_key(tenure) else 0
        return max(leased, tenure.proven_ms)
