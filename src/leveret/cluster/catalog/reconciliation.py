"""The definitions of a shard: those of its cluster, as far as they concern it, unless they are older than the shard.

    the definitions went through what the shard has followed last --> it has what they say, and nothing else
    they did not, but know all that it has                        --> the same
    they did not, and something is missing in them                --> conflict: nothing is removed, or made different

They did not when the database that has them was restored, and that of the shard was not: queues that were declared
since then are in the shard only, with their messages. Which version a shard has followed is in its journal, and so is
a conflict: newer definitions on top of the old ones do not end it, but an operator does. What is decided
meanwhile is followed.
"""

from collections.abc import Iterable
from typing import Any

from leveret.cluster.catalog.changes import DefinitionChange, Key, agrees, apply, change_of, concerns
from leveret.cluster.catalog.replica import Mark, Replica, VersionHistory, in_order
from leveret.cluster.coordination.placement import LOCAL
from leveret.core.broker import Broker
from leveret.core.definition_log import REMOVED, Kind
from leveret.core.errors import JournalFailed, LeveretError, PreconditionFailed
from leveret.core.names import INTERNAL_VHOST
from leveret.core.queue import Queue
from leveret.core.topology import Vhost
from leveret.observability.logs import Log

NAMES_MAX = 20  # of queues that a report has: the first will do to know what it is about

LOG = Log("node")


class Reconciliation:
    """The definitions of one shard; all but what is told of a conflict under its lock."""

    def __init__(self, shard_id: str, core: Broker) -> None:
        self._shard_id = shard_id
        self._core = core
        self.unknown: list[DefinitionChange] = []
        """What would let the definitions of the cluster be those of the shard, while it is in conflict."""

    def follow(self, changes: Iterable[DefinitionChange], history: VersionHistory) -> None:
        if self.unknown:
            changes = [each for each in changes if not self._is_kept(each)]
        _make_all(self._core, changes)
        if not self.unknown:
            self._reach(history.newest)

    def reconcile(self, replica: Replica, discard: bool = False) -> None:
        """Have what the whole cluster has, and nothing else, if that may be, or if an operator says so."""
        changes = [inside(each) for each in replica.changes() if concerns(each, self._shard_id, replica.shard_ids)]
        wanted = {change.key: change for change in changes}
        present = self._present()
        self.unknown = [] if discard or self.is_in(replica.history) else self._missing(wanted, present)
        if self.unknown:
            self._note_conflict(replica.history)
            there = {change.key for change in present}
            harmless = [each for each in changes if each.key not in there and each.kind != Kind.POLICY]
            _make_all(self._core, in_order(harmless))
            return
        surplus = [DefinitionChange(each.what | REMOVED, each.payload) for each in present if each.key not in wanted]
        _make_all(self._core, sorted(surplus, key=lambda change: -change.kind))
        _make_all(self._core, in_order(changes))
        self._reach(replica.history.newest)

    def is_in(self, history: VersionHistory) -> bool:
        """Whether the definitions are those that the shard had, and what was made of them since."""
        row = self._row
        return not row["doubt"] and history.has(Mark(row["version"], row["writer"]))

    def conflict(self) -> dict[str, Any] | None:
        """What the definitions do not know, for people; None: nothing."""
        if not self.unknown:
            return None
        queues = [found for change in self.unknown if (found := self._queue_of(change)) is not None]
        return {
            "shard": self._shard_id,
            "version": self._row["version"],
            "queues": len(queues),
            "names": [queue.name for queue in queues[:NAMES_MAX]],
            "messages": sum(queue.depth + queue.leased + queue.scheduled for queue in queues),
            "others": len(self.unknown) - len(queues),
        }

    # What the journal knows

    @property
    def _row(self) -> dict[str, Any]:
        return self._core.catalog.get(Kind.FOLLOWED) or {"version": 0, "writer": "", "doubt": False}

    def _reach(self, mark: Mark) -> None:
        row = {"version": mark.version, "writer": mark.writer, "doubt": False}
        if row != self._row and not self._shard_id.startswith(LOCAL):
            self._core.define(Kind.FOLLOWED, row)

    def _note_conflict(self, history: VersionHistory) -> None:
        if not self._row["doubt"]:
            self._core.define(Kind.FOLLOWED, {**self._row, "doubt": True})
        told = self.conflict()
        assert told is not None, "there is one"
        about = {"version": told["version"], "definitions": history.newest.version, "queues": told["queues"]}
        advice = "nothing was removed; run `leveret cluster adopt`, or `leveret cluster discard` to drop it"
        LOG.error(
            "definitions older than a shard", shard=self._shard_id, **about, messages=told["messages"], advice=advice
        )

    # What there is

    def _present(self) -> list[DefinitionChange]:
        """All that the shard has, so that it can be made elsewhere."""
        vhosts = [each for each in self._core.topology.vhosts.values() if each.name != INTERNAL_VHOST]
        details = [change_of(Kind.QUEUE_DETAILS, each) for each in self._core.catalog.of(Kind.QUEUE_DETAILS)]
        return [*(each for vhost in vhosts for each in self._of_vhost(vhost)), *details]

    def _of_vhost(self, vhost: Vhost) -> list[DefinitionChange]:
        here = {"vhost": vhost.name}
        policies = [*vhost.policies.values(), *vhost.operator_policies.values()]
        made = [each for each in vhost.exchanges.values() if each.name and not each.name.startswith("amq.")]
        rows: list[tuple[Kind, dict[str, Any]]] = [
            *((Kind.VHOST, vhost.to_dict()) for _ in [vhost] if vhost.name != "/"),
            *((Kind.EXCHANGE, {**here, **each.to_dict()}) for each in made),
            *((Kind.QUEUE, self._described(each)) for each in vhost.queues.values()),
            *((Kind.BINDING, {**here, **each.to_dict()}) for each in vhost.bindings()),
            *((Kind.POLICY, {**here, **each.to_dict()}) for each in policies),
        ]
        return [change_of(kind, definition) for kind, definition in rows]

    def _described(self, queue: Queue) -> dict[str, Any]:
        """The definition of a queue that is to be here."""
        stored = self._core.kinds.of(queue.arguments, queue.name, queue.vhost).stored
        lifetime = {"durable": queue.durable, "auto_delete": queue.auto_delete, "paused": queue.paused}
        since = {"created_ms": queue.created_ms} if queue.created_ms else {}
        return {
            "vhost": queue.vhost,
            "name": queue.name,
            "arguments": stored,
            **lifetime,
            **since,
            "home": self._shard_id,
        }

    def _queue_of(self, change: DefinitionChange) -> Queue | None:
        if change.kind != Kind.QUEUE:
            return None
        definition = change.definition
        virtual_host = self._core.topology.vhosts.get(definition["vhost"])
        return None if virtual_host is None else virtual_host.queues.get(definition["name"])

    # What may not be lost

    def _missing(self, wanted: dict[Key, DefinitionChange], present: list[DefinitionChange]) -> list[DefinitionChange]:
        """What the definitions of the cluster would remove, and policies by which messages might be removed."""
        there = {each.key for each in present}
        new = [each for key, each in wanted.items() if each.kind == Kind.POLICY and key not in there]
        lost = [each for each in present if each.key not in wanted or self._differs(each, wanted[each.key])]
        return lost + [DefinitionChange(each.what | REMOVED, each.payload) for each in new]

    def _differs(self, present: DefinitionChange, wanted: DefinitionChange) -> bool:
        if present.kind == Kind.POLICY:
            return present.payload != wanted.payload
        queue = self._queue_of(present)
        return queue is not None and not agrees(queue, wanted.definition)

    def _is_kept(self, change: DefinitionChange) -> bool:
        """Whether a decision would replace or change a queue that the definitions may know nothing of."""
        queue = None if change.removed else self._queue_of(change)
        if queue is None or agrees(queue, inside(change).definition):
            return False
        LOG.warning(
            "definition not made",
            kind=change.kind.name,
            name=queue.name,
            reason="the shard is in conflict with the catalog",
        )
        return True


def _make_all(core: Broker, changes: Iterable[DefinitionChange]) -> None:
    """Make changes; one that cannot be made does not keep the others from it."""
    for change in map(inside, changes):
        try:
            _make(core, change)
        except JournalFailed:
            raise
        except LeveretError as error:
            LOG.error("definition not made", error, kind=change.kind.name)


def _make(core: Broker, change: DefinitionChange) -> None:
    """Make a change; what is there in its place and is something else goes first."""
    try:
        apply(core, change)
    except PreconditionFailed:
        apply(core, DefinitionChange(change.what | REMOVED, change.payload))
        apply(core, change)


def inside(change: DefinitionChange) -> DefinitionChange:
    """A change as a shard makes it.

    The proxies know who owns a queue: here every client is another one. An exchange that goes with its last
    binding would go too early: here are only some of them.
    """
    if change.removed or change.kind not in (Kind.QUEUE, Kind.EXCHANGE):
        return change
    definition = change.definition
    if change.kind == Kind.EXCHANGE:
        return change_of(Kind.EXCHANGE, {**definition, "auto_delete": False})
    return change_of(Kind.QUEUE, {name: value for name, value in definition.items() if name != "owner"})
