"""A copy of all definitions: a broker without messages, and the same as the log has them.

Verbs are run on it, and what they would journal can be undone: as long as it is not in the log it was only an attempt.
Others may use the broker under the same lock; only verbs that are run here are known to the log.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from leveret.cluster.catalog.changes import SHARED, Change, Key, apply, change_of, inverse
from leveret.cluster.catalog.history import History
from leveret.cluster.coordination.placement import LOCAL, Placements, home_of_owner
from leveret.core.broker import Broker
from leveret.core.catalog import REMOVED, Kind
from leveret.core.errors import PreconditionFailed, QueueNotFound, ResourceLocked
from leveret.core.jsonable import restored
from leveret.core.names import described
from leveret.core.ports import Journal
from leveret.core.queue import Queue
from leveret.core.streams import NoStreams, Recorder

DEFAULT_TYPE = "default_queue_type"


class Step(NamedTuple):
    """A change, and the definition that was there before."""

    change: Change
    before: bytes | None


class Draft(Journal):
    """Notes what verbs would journal, as far as others have to know it."""

    noted: list[Change]

    def defined(self, what: int, payload: bytes) -> int:
        """See Journal."""
        if what & ~REMOVED in SHARED:
            self.noted.append(Change(what, payload))
        return 0


class StreamNames(NoStreams):
    """The streams of a broker without messages."""

    def recorder_of(self, queue: Queue) -> Recorder:
        """One that has nothing."""
        return Recorder()


class Replica:
    """All definitions."""

    def __init__(self, shards: int) -> None:
        """None yet."""
        self.lock = threading.Lock()
        self.followers: list[Callable[[Change], None]] = []
        """Told, under the lock, about every change that was made by no verb here."""
        self._draft = Draft()
        self._draft.noted = []
        self._payloads: dict[Key, bytes] = {}
        self.broker = Broker(self._draft)
        self.broker.streams = StreamNames()
        self.broker.log.is_copy = True
        self.placements = Placements(shards)
        self.homes: dict[tuple[str, str], str] = {}
        """Where each queue is: the number of a shard, or @ and a node for those of its connections."""
        self.expected: dict[tuple[str, str], str] = {}
        """Where new queues are to be which a shard has already."""
        self.history = History()
        """The versions that led here."""

    def tell_local(self, is_served: Callable[[str], bool]) -> None:
        """Let exchanges that stay on a node know which shards this node serves."""
        self.broker.topology.has_locally = lambda vhost, queue: is_served(self.homes.get((vhost, queue), ""))

    def home_of(self, vhost: str, queue: str) -> str:
        """The home of a queue."""
        home = self.homes.get((vhost, queue))
        if home is None:
            raise QueueNotFound(f"no {described('queue', queue, vhost)}")
        return home

    def changes(self) -> list[Change]:
        """What makes an empty copy equal to this one."""
        return [Change(kind, payload) for (kind, _), payload in self._payloads.items()]

    def run(self, verb: Callable[[Broker], Any]) -> tuple[Any, list[Step]]:
        """Run a verb; give its result and what it changed. A refused one changes nothing."""
        with self.lock:
            try:
                result = verb(self.broker)
            except BaseException:
                self._undo(self._taken())
                raise
            return result, self._taken()

    def undo(self, steps: list[Step]) -> None:
        """Take back what verbs did last."""
        with self.lock:
            self._undo(steps)

    def make(self, changes: Iterable[Change]) -> None:
        """Make changes that are in the log."""
        with self.lock:
            self._make(changes)

    def _undo(self, steps: list[Step]) -> None:
        before = {change.key: inverse(change, before) for change, before in reversed(steps)}
        self._make_all(list(before.values()))

    def _make(self, changes: Iterable[Change]) -> None:
        for change in changes:
            apply(self.broker, change)
            self._keep(change)
            for follower in self.followers:
                follower(change)
        # An exchange deletes itself with its last binding: not if it was there before an attempt to bind it.
        dragged = {change.key for change in self._draft.noted if change.removed} & self._payloads.keys()
        for change in in_order(Change(key[0], self._payloads[key]) for key in dragged):
            apply(self.broker, change)
        self._draft.noted = []

    def become(self, changes: list[Change]) -> list[Change]:
        """Be what these changes make of an empty copy; give what had to change."""
        wanted = {change.key: change for change in changes}
        removals = [
            Change(kind | REMOVED, payload)
            for (kind, key), payload in self._payloads.items()
            if (kind, key) not in wanted
        ]
        with self.lock:
            return self._make_all([*removals, *wanted.values()])

    def _make_all(self, changes: list[Change]) -> list[Change]:
        """Make changes in an order in which each finds what it needs; give those that were not made already."""
        # Removed in the reverse of the order in which they are made: what belongs to something goes before it.
        made = sorted((change for change in changes if change.removed), key=lambda change: -change.kind)
        self._make(made)
        for change in in_order(change for change in changes if not change.removed):
            if change.kind == Kind.BINDING or self._payloads.get(change.key) != change.payload:
                made += self._replaced(change)
        return made

    def _replaced(self, change: Change) -> list[Change]:
        """Make a change; what is there in its place and is something else goes first."""
        try:
            self._make([change])
        except (PreconditionFailed, ResourceLocked):
            instead = [Change(change.what | REMOVED, change.payload), change]
            self._make(instead)
            return instead
        return [change]

    def _taken(self) -> list[Step]:
        """What was noted, as the log has it."""
        noted, self._draft.noted = self._draft.noted, []
        steps = []
        for change in map(self._placed, noted):
            steps.append(Step(change, self._payloads.get(change.key)))
            self._keep(change)
        return steps

    def _placed(self, change: Change) -> Change:
        """A change that names the home of a queue, which a new one gets here, in place of its number."""
        if change.kind != Kind.QUEUE:
            return change
        definition = change.definition
        del definition["id"]
        vhost, name = definition["vhost"], definition["name"]
        home = self.homes.get((vhost, name))
        if home is None and "owner" in definition:
            home = home_of_owner(definition["owner"])
        elif home is None:
            placed = self.placements.choose(vhost, name, _arguments(definition))
            home = self.expected.pop((vhost, name), str(placed))
        return change_of(Kind.QUEUE, {**definition, "home": home}, change.removed)

    def _keep(self, change: Change) -> None:
        """Note the definition, and where a queue is."""
        if change.removed:
            self._payloads.pop(change.key, None)
        else:
            self._payloads[change.key] = change.payload
        if change.kind == Kind.QUEUE:
            definition = change.definition
            where, home = (definition["vhost"], definition["name"]), definition["home"]
            if change.removed:
                self.homes.pop(where, None)
                self.placements.drop(*where)
            else:
                self.homes[where] = home
                if not home.startswith(LOCAL):
                    self.placements.put(*where, _arguments(definition), int(home))


def _arguments(definition: dict[str, Any]) -> dict[str, Any] | None:
    stored = definition.get("arguments")
    return restored(stored) if stored else None


def in_order(changes: Iterable[Change]) -> list[Change]:
    """Definitions in the order in which each finds what it needs.

    The type that a virtual host gives to new queues comes last: those that are older than it have their own.
    """
    ordered = sorted(changes, key=lambda change: change.kind)
    hosts = [change for change in ordered if change.kind == Kind.VHOST and change.definition.get(DEFAULT_TYPE)]
    early = [change_of(Kind.VHOST, {**host.definition, DEFAULT_TYPE: None}) for host in hosts]
    return [*early, *(change for change in ordered if change not in hosts), *hosts]
