"""What an operator sees of a cluster through one of its nodes, and what the operator lets it do: drain, rebalance,
groups.

The databases of the cluster are asked when an operator looks. One that hangs is waited for once, for a moment; as long
as it has not answered, every other request is told that.

Conflicts about definitions that are older than shards (see leveret.cluster.catalog.reconciliation) end as an operator
wants it; each node does that with the shards that it has.

    adopt      the definitions get what shards have and they do not know
    discard    shards lose it, with the messages
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from leveret.clock import Clock, SystemClock
from leveret.cluster.catalog.changes import DefinitionChange, apply
from leveret.cluster.catalog.replica import Replica, in_order
from leveret.cluster.coordination.coordinator import Coordinator
from leveret.cluster.coordination.keys import Owner
from leveret.cluster.coordination.ownership import OwnershipPhase
from leveret.cluster.coordination.placement import assignment
from leveret.cluster.joined import JoinedNode
from leveret.cluster.node import ASKED_S, Node
from leveret.cluster.rpc.calls import call
from leveret.cluster.shards.group_operations import GroupOperations
from leveret.cluster.shards.groups import GroupFacts, ShardGroup, facts_of
from leveret.cluster.shards.shard import Shard
from leveret.core.broker import Broker
from leveret.core.definition_log import Kind
from leveret.core.errors import LeveretError, PreconditionFailed, Unreachable
from leveret.observability.logs import Log

SETTLE = "settle"
SETTLE_S = 40.0  # less than the time for which a command waits

LOG = Log("node")


class ConflictResolution:
    """For the operators of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        node.call_handlers.works[SETTLE] = self._here

    def conflicts(self) -> list[Row]:
        """What the definitions do not know of the shards of this node."""
        return [row for shard in self._node.shards.values() if (row := shard.reconciliation.conflict()) is not None]

    async def settle(self, discard: bool) -> list[Row]:
        """Settle the conflicts of all nodes within reach; give a row for each shard that had one."""
        about = {"discard": discard}
        rows: list[Row] = await self._here(about)
        for link in list(self._node.links.values()):
            rows += await call(link, SETTLE, about, SETTLE_S)
        return sorted(rows, key=lambda row: int(row["shard"]))

    async def _here(self, about: Row) -> list[Row]:
        discard = bool(about.get("discard"))
        shards = [shard for shard in self._node.shards.values() if shard.reconciliation.unknown]
        return [row for shard in shards for row in await self._settled(shard, discard)]

    async def _settled(self, shard: Shard, discard: bool) -> list[Row]:
        """What a shard had, and what is left of the conflict: what another queue of that name is in the way of."""
        before = shard.reconciliation.conflict()
        if before is None:
            return []  # it has ended meanwhile
        replica = self._node.catalog.replica
        if not discard:
            await self._node.decide(partial(adopt, replica, shard.reconciliation.unknown))
        shard.reconcile(replica, discard)
        after = shard.reconciliation.conflict()
        if after is None:
            LOG.info("conflict resolved", shard=shard.shard_id, discard=discard)
        else:
            LOG.warning("conflict not resolved", shard=shard.shard_id, queues=after["queues"], others=after["others"])
        return [{**before, "left": after}]


def adopt(replica: Replica, changes: Iterable[DefinitionChange], core: Broker) -> None:
    """Let the definitions have what a shard has, in that shard; a verb for the catalog."""
    for change in in_order(changes):
        definition = change.definition
        if change.kind == Kind.QUEUE:
            replica.expected[definition["vhost"], definition["name"]] = definition["home"]
        try:
            apply(core, change)
        except LeveretError as error:
            LOG.warning("definition not adopted", kind=change.kind.name, name=definition.get("name"), reason=error)


EXAMINE = "examine"


class ClusterExamination:
    """What one node finds out about its cluster."""

    def __init__(self, joined: JoinedNode, clock: Clock) -> None:
        self._joined = joined
        self._clock = clock
        joined.node.questions[EXAMINE] = self._facts

    async def look(self) -> Row:
        """Facts of each node that answers, with how far its clock is off at least, and how many members etcd has."""
        began_ms = self._clock.now_ms()
        told: dict[str, Row] = await self._joined.node.ask_all(EXAMINE)
        ended_ms = self._clock.now_ms()
        nodes = {self._joined.node.name: self._facts(), **told}
        for facts in nodes.values():
            now_ms = facts.pop("now_ms")
            # It was asked in between: whatever is in between is no difference.
            facts["clock_off_ms"] = min(0, now_ms - began_ms) + max(0, now_ms - ended_ms)
        return {"nodes": nodes, "etcd_members": await self._etcd_members()}

    def _facts(self) -> Row:
        place = self._joined.place
        told = {"etcd": len(place.etcd), "lease_s": place.ttl_s, "tls": place.tls is not None}
        return {**told, "now_ms": self._clock.now_ms()}

    async def _etcd_members(self) -> int | None:
        """How many etcds decide together; None: they do not say."""
        try:
            return await self._joined.etcd.member_count()
        except LeveretError:
            return None


CURRENT_S = 5.0  # for which an answer is not asked for again: pages look all the time
WAIT_S = 1.0


@dataclass(frozen=True, slots=True)
class GroupState:
    """What is known of a group."""

    asked_s: float = float("-inf")
    facts: GroupFacts | None = None
    trouble: str | None = None

    @property
    def word(self) -> str:
        if self.trouble is not None:
            return "unreachable"
        return "unknown" if self.facts is None else "reachable"


class GroupStates:
    """The groups as one node sees them."""

    def __init__(self, known: Callable[[], Mapping[int, ShardGroup]]) -> None:
        """No database was asked yet; `known` gives the groups that there are."""
        self._known = known
        self._states: dict[int, GroupState] = {}
        self._asking: dict[int, tuple[asyncio.Task[None], float]] = {}
        """Those that have not answered yet, and since when."""

    async def close(self) -> None:
        tasks = [task for task, _ in self._asking.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def look(self) -> dict[int, GroupState]:
        """What is known of each group, after those were asked of whom it is not known since a moment ago."""
        now_s, known = asyncio.get_running_loop().time(), self._known()
        silent = {number: f"no answer for {now_s - since_s:.0f} s" for number, (_, since_s) in self._asking.items()}
        asked = []
        for number, group in known.items():
            if number not in self._asking and now_s - self._states.get(number, GroupState()).asked_s > CURRENT_S:
                asked.append(asyncio.create_task(self._ask(group, now_s)))
                self._asking[number] = asked[-1], now_s
        if asked:
            await asyncio.wait(asked, timeout=WAIT_S)
        return {number: self._state_of(number, silent) for number in known}

    def _state_of(self, number: int, silent: Mapping[int, str]) -> GroupState:
        if number in silent and number in self._asking:
            return GroupState(trouble=silent[number])
        return self._states.get(number, GroupState())

    async def _ask(self, group: ShardGroup, now_s: float) -> None:
        try:
            self._states[group.number] = GroupState(now_s, await asyncio.to_thread(facts_of, group.url))
        except LeveretError as error:
            self._states[group.number] = GroupState(now_s, trouble=str(error))
        finally:
            del self._asking[group.number]


DRAIN_S = 50.0  # less than the time for which a command waits
DESTINATIONS_MAX = 20  # that a report names: the oldest outbox messages are those to look after
REPORT, REBALANCE = "report", "rebalance"
REPORTED = ("definitions", "counts", "redis", "troubles", "links", "outboxes")  # by a node, of itself
NO_REDIS = {"state": "none", "trouble": None}
NO_FACTS = {"standbys": None, "version": None}
OLD = "the database that has them does not answer, so they may be old, and clients wait"
SILENT = f"it has said nothing for {ASKED_S:g} s"

Row = dict[str, Any]


class Operations:
    """The cluster for the operators of one node."""

    def __init__(
        self, joined: JoinedNode, stop: Callable[[], None], redis: Callable[[], Row] = lambda: NO_REDIS
    ) -> None:
        """Speak for a node that has joined; `stop` ends its process, in order, `redis` tells of what nodes share."""
        assert joined.coordinator is not None, "a node that has not joined has no cluster"
        self._coordinator: Coordinator = joined.coordinator
        self._node = joined.node
        self._stop = stop
        self._hosting = joined.hosting
        self._moving = joined.moving
        self._groups = groups = GroupOperations(joined.node, joined.coordinator, joined.moving)
        self.add_shard_group, self.remove_shard_group = groups.add, groups.remove
        self.move_shard, self.move_catalog = groups.move, groups.move_catalog
        self._states = GroupStates(lambda: joined.moving.known)
        self._conflicts = ConflictResolution(joined.node)
        self._examination = ClusterExamination(joined, SystemClock())
        self._redis = redis
        joined.closing += [self._groups.close, self._states.close]
        self._node.questions |= {REPORT: self._report, REBALANCE: self._rebalance}

    # What operators ask for

    async def status(self) -> dict[str, Any]:
        """Who is there, and who has which shard; what another node knows of itself is None when it does not answer."""
        states, reports = await asyncio.gather(self._states.look(), self._reports())
        groups = _groups(reports)
        return {
            "cluster": self._node.cluster,
            "node": self._node.name,
            "definitions": self._node.catalog.version,
            "members": self._members(reports),
            "groups": _table(reports, groups, states, self._moving.catalog_database),
            "shards": self._shards(reports, groups),
            "doubts": sorted(_conflicts_of(reports), key=lambda row: int(row["shard"])),
        }

    async def _reports(self) -> dict[str, Any]:
        return {self._node.name: self._report(), **await self._node.ask_all(REPORT)}

    async def examine(self) -> Row:
        """All of that, and how nodes were set up: for who looks for mistakes."""
        return {**await self.status(), **await self._examination.look()}

    async def settle(self, discard: bool) -> dict[str, Any]:
        """Let the definitions have what shards have and they do not know, or let shards lose it."""
        return {"discard": discard, "shards": await self._conflicts.settle(discard)}

    async def drain(self, stay: bool = False) -> dict[str, Any]:
        """Give all shards to others, then stop; one that is to stay goes on to serve clients, by others' shards."""
        others = [node for node in self._coordinator.view.staying if node != self._node.name]
        if not others:
            raise PreconditionFailed("no other node is there to take the shards: start one, or just stop this node")
        given = len(self._coordinator.ownership.serving())
        try:
            async with asyncio.timeout(DRAIN_S):
                await self._coordinator.drain()
        except TimeoutError:
            left = len(self._coordinator.ownership.serving())
            raise Unreachable(f"{left} shards are still here: look into the log, then drain again or stop") from None
        if not stay:
            self._stop()
        return {"node": self._node.name, "shards": given, "others": sorted(others), "stays": stay}

    async def rebalance(self) -> dict[str, Any]:
        """Let shards go to the nodes that should have them, on all nodes; they move one by one after this."""
        asked = await self._node.ask_all(REBALANCE)
        return {"shards": self._rebalance(), "nodes": sorted([self._node.name, *asked])}

    # What others look at

    @property
    def draining(self) -> bool:
        return self._coordinator.member.draining

    @property
    def links(self) -> list[str]:
        """The nodes within reach."""
        return sorted(self._node.links)

    @property
    def successors(self) -> list[str]:
        """The nodes within reach that would take its shards."""
        return [node for node in self._coordinator.view.staying if node in self._node.links]

    def figures(self) -> dict[str, Any]:
        """What scrapes tell of the part that this node has in its cluster."""
        owners = self._coordinator.view.owners
        waiting = [each for outbox in self._node.outboxes.values() for each in outbox.waiting()]
        return {
            **self._coordinator.counts,
            "shards": len(self._coordinator.ownership.serving()),
            "vacant": self._coordinator.shard_count - len(owners),
            "definitions": self._node.catalog.version,
            "links": {name: name in self._node.links for name in self._others()},
            "link_bytes": self._node.peers.bytes(),
            "forwarded": self._node.forwarder.forwarded,
            "outbox": sum(outbox.depth for outbox in self._node.outboxes.values()),
            "outbox_oldest_ms": max((each.age_ms for each in waiting), default=0),
            "outbox_stuck": sum(each.is_stuck for each in waiting),
            "etcd_trouble": int(self._coordinator.trouble is not None),
            "store_trouble": int(self._store_trouble() is not None),
            "definitions_trouble": int(not self._node.is_current),
            "doubtful": len(self._conflicts.conflicts()),
        }

    def _others(self) -> list[str]:
        return sorted(name for name in self._coordinator.view.members if name != self._node.name)

    def _store_trouble(self) -> str | None:
        return next((trouble for trouble in self._hosting.troubles().values() if trouble is not None), None)

    # What other nodes ask for

    def _report(self) -> dict[str, Any]:
        """What only this node knows of itself."""
        ownership = self._coordinator.ownership
        phases = {str(shard): ownership.phase(shard) for shard in range(self._coordinator.shard_count)}
        busy = {shard: phase.name.lower() for shard, phase in phases.items() if phase is not OwnershipPhase.IDLE}
        counts = dict(self._coordinator.counts)
        stores = {
            str(shard): {"group": self._moving.group_of(shard), "trouble": trouble}
            for shard, trouble in self._hosting.troubles().items()
        }
        redis = self._redis()
        troubles = {
            "etcd": self._coordinator.trouble,
            "postgresql": self._store_trouble(),
            "redis": redis["trouble"],
            "definitions": None if self._node.is_current else OLD,
        }
        told = {
            "phases": busy,
            "counts": counts,
            "stores": stores,
            "groups": self._groups.known(),
            "troubles": troubles,
            "redis": redis["state"],
            "links": self.links,
            "outboxes": self._outboxes(),
            "doubts": self._conflicts.conflicts(),
        }
        return {"definitions": self._node.catalog.version, **told}

    def _outboxes(self) -> list[dict[str, Any]]:
        """Who keeps outbox messages of this node waiting, the oldest first."""
        found: list[dict[str, Any]] = [
            {"shard": shard_id, "destination": to, "letters": messages, "age_s": age_ms // 1_000, "stuck": is_stuck}
            for shard_id, outbox in self._node.outboxes.items()
            for to, messages, age_ms, is_stuck in outbox.waiting()
        ]
        return sorted(found, key=lambda each: -each["age_s"])[:DESTINATIONS_MAX]

    def _rebalance(self) -> int:
        """Move what should be elsewhere; give how many shards of all nodes that are."""
        self._coordinator.rebalance()
        wanted = assignment(self._coordinator.shard_count, sorted(self._coordinator.view.staying))
        owners = self._coordinator.view.owners
        return sum(wanted.get(shard, owner.node) != owner.node for shard, owner in owners.items())

    # Tables

    def _members(self, reports: dict[str, Any]) -> list[dict[str, Any]]:
        view = self._coordinator.view
        owned = Counter(owner.node for owner in view.owners.values())
        return [
            {
                "node": name,
                "linked": "here" if name == self._node.name else "up" if name in self._node.links else "down",
                "unanswered": None
                if name in reports
                else SILENT
                if name in self._node.links
                else self._node.peers.why_down(name),
                "draining": member.draining,
                "shards": owned[name],
                **{fact: reports.get(name, {}).get(fact) for fact in REPORTED},
                "addresses": dict(member.addresses),
            }
            for name, member in sorted(view.members.items())
        ]

    def _shards(self, reports: dict[str, Any], groups: dict[int, int]) -> list[dict[str, Any]]:
        queues = Counter(self._node.catalog.replica.shard_ids.values())
        linked = {self._node.name, *self._node.links}
        rows = []
        for shard in range(self._coordinator.shard_count):
            owner = self._coordinator.view.owners.get(shard)
            rows.append(
                {
                    "shard": shard,
                    "owner": None if owner is None else owner.node,
                    "epoch": None if owner is None else owner.epoch,
                    "state": state_of(shard, owner, linked, reports),
                    "group": groups.get(shard),
                    "queues": queues[str(shard)],
                }
            )
        return rows


def state_of(shard: int, owner: Owner | None, linked: set[str], reports: dict[str, Any]) -> str:
    """Where a shard is: as its owner says, or as etcd has it if the owner is within reach and does not answer."""
    if owner is None:
        return "vacant"
    if owner.node not in linked:
        return "unreachable"
    told = reports.get(owner.node, {}).get("phases", {}).get(str(shard))
    return str(told) if told else "active" if owner.epoch else "taking"


def _stores(reports: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """What the nodes say of the databases of the shards that they have open."""
    return [(int(shard), told) for report in reports.values() for shard, told in report.get("stores", {}).items()]


def _conflicts_of(reports: dict[str, Any]) -> list[Row]:
    """What shards have and the definitions do not know."""
    return [{**row, "node": node} for node, report in reports.items() for row in report.get("doubts", [])]


def _groups(reports: dict[str, Any]) -> dict[int, int]:
    """The group of each shard that some node has open."""
    return {shard: told["group"] for shard, told in _stores(reports) if told["group"] is not None}


def _table(
    reports: dict[str, Any], groups: dict[int, int], states: dict[int, GroupState], catalog_database: int
) -> list[Row]:
    """All groups that some node knows: what they have, and why they take nothing, if so.

    `standbys` are those that commits wait for, "" for none; None: it is not known.
    """
    urls = {int(number): url for report in reports.values() for number, url in report.get("groups", {}).items()}
    troubles = {told["group"]: told["trouble"] for _, told in _stores(reports) if told["trouble"] is not None}
    counts = Counter(groups.values())
    rows = []
    for number in sorted(urls):
        state = states.get(number, GroupState())
        facts = None if state.facts is None else {"standbys": state.facts.standbys, "version": state.facts.version}
        has = {"group": number, "shards": counts[number], "definitions": number == catalog_database}
        told = {**has, "state": state.word, **(facts or NO_FACTS)}
        rows.append({**told, "trouble": troubles.get(number) or state.trouble, "url": urls[number]})
    return rows
