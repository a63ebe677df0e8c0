"""A copy of all definitions: a broker without messages, and the same as the log has them.

Verbs are run on it, and what they would journal can be undone: as long as it is not in the log it was only an attempt.
Others may use the broker under the same lock; only verbs that are run here are known to the log.

A thread that holds the lock of a shard asks a second copy, the QueueDirectory, which shards a message goes to: the lock
of the first one is held by threads that wait for a shard. That of the directory is held only to look, and takes no
other lock.

VersionHistory: a database that is restored goes back to an older version, and so does one after a failover that lost
what was never acknowledged. What is written from then on gets numbers that were given before: a version is known by
its writer, too.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from leveret.cluster.catalog.changes import IN_SHARDS, SHARED, DefinitionChange, Key, apply, change_of, inverse
from leveret.cluster.coordination.placement import LOCAL, Placements, shard_id_of_owner
from leveret.core.broker import Broker
from leveret.core.deadletter import forms_cycle
from leveret.core.definition_log import REMOVED, Kind
from leveret.core.errors import PreconditionFailed, QueueNotFound, ResourceLocked
from leveret.core.jsonable import restored
from leveret.core.names import described
from leveret.core.ports import Journal
from leveret.core.properties import Properties
from leveret.core.queue import Queue
from leveret.core.streams import NoStreams, Recorder

VERSIONS_MAX = 10_000  # that are remembered: of older ones the number has to do


class Mark(NamedTuple):
    """A version, and who wrote it."""

    version: int
    writer: str


BEGINNING = Mark(0, "")


class VersionHistory:
    """The versions up to the newest one."""

    def __init__(self, first: Mark = BEGINNING) -> None:
        self.newest = first
        self._writers = {first.version: first.writer}

    def reach(self, mark: Mark) -> None:
        self.newest = mark
        self._writers[mark.version] = mark.writer
        self._writers.pop(mark.version - VERSIONS_MAX, None)

    def has(self, mark: Mark) -> bool:
        """Whether a version was on the way to the newest one, as far as it is known who wrote it."""
        return mark.version <= self.newest.version and self._writers.get(mark.version, mark.writer) == mark.writer


DEFAULT_TYPE = "default_queue_type"


class ChangeStep(NamedTuple):
    """A change, and the definition that was there before."""

    change: DefinitionChange
    before: bytes | None


class DraftJournal(Journal):
    """Notes what verbs would journal, as far as others have to know it."""

    noted: list[DefinitionChange]

    def defined(self, what: int, payload: bytes) -> int:
        if what & ~REMOVED in SHARED:
            self.noted.append(DefinitionChange(what, payload))
        return 0


class StreamNames(NoStreams):
    """The streams of a broker without messages."""

    def recorder_of(self, queue: Queue) -> Recorder:
        return Recorder()


class Replica:
    """All definitions."""

    def __init__(self, shards: int) -> None:
        self.lock = threading.RLock()
        """Held while a verb is run: the code of single servers, which takes the lock itself, may be that verb."""
        self.followers: list[Callable[[DefinitionChange], None]] = []
        """Told, under the lock, about every change that was made by no verb here."""
        self._draft = DraftJournal()
        self._draft.noted = []
        self._payloads: dict[Key, bytes] = {}
        self.broker = Broker(self._draft)
        self.broker.streams = StreamNames()
        self.broker.log.is_copy = True
        self.placements = Placements(shards)
        self.shard_ids: dict[tuple[str, str], str] = {}
        """Where each queue is: the number of a shard, or @ and a node for those of its connections."""
        self.expected: dict[tuple[str, str], str] = {}
        """Where new queues are to be which a shard has already."""
        self.history = VersionHistory()
        """The versions that led here."""

    def tell_local(self, is_served: Callable[[str], bool]) -> None:
        """Let exchanges that stay on a node know which shards this node serves."""
        self.broker.topology.has_locally = lambda vhost, queue: is_served(self.shard_ids.get((vhost, queue), ""))

    def shard_id_of(self, vhost: str, queue: str) -> str:
        shard_id = self.shard_ids.get((vhost, queue))
        if shard_id is None:
            raise QueueNotFound(f"no {described('queue', queue, vhost)}")
        return shard_id

    def changes(self) -> list[DefinitionChange]:
        """What makes an empty copy equal to this one."""
        return [DefinitionChange(kind, payload) for (kind, _), payload in self._payloads.items()]

    def run(self, verb: Callable[[Broker], Any]) -> tuple[Any, list[ChangeStep]]:
        """Run a verb; give its result and what it changed. A refused one changes nothing."""
        with self.lock:
            try:
                result = verb(self.broker)
            except BaseException:
                self._undo(self._taken())
                raise
            return result, self._taken()

    def undo(self, steps: list[ChangeStep]) -> None:
        with self.lock:
            self._undo(steps)

    def make(self, changes: Iterable[DefinitionChange]) -> None:
        """Make changes that are in the log."""
        with self.lock:
            self._make(changes)

    def _undo(self, steps: list[ChangeStep]) -> None:
        before = {change.key: inverse(change, before) for change, before in reversed(steps)}
        self._make_all(list(before.values()))

    def _make(self, changes: Iterable[DefinitionChange]) -> None:
        for change in changes:
            apply(self.broker, change)
            self._keep(change)
            for follower in self.followers:
                follower(change)
        # An exchange deletes itself with its last binding: not if it was there before an attempt to bind it.
        dragged = {change.key for change in self._draft.noted if change.removed} & self._payloads.keys()
        for change in in_order(DefinitionChange(key[0], self._payloads[key]) for key in dragged):
            apply(self.broker, change)
        self._draft.noted = []

    def become(self, changes: list[DefinitionChange]) -> list[DefinitionChange]:
        """Be what these changes make of an empty copy; give what had to change."""
        wanted = {change.key: change for change in changes}
        removals = [
            DefinitionChange(kind | REMOVED, payload)
            for (kind, key), payload in self._payloads.items()
            if (kind, key) not in wanted
        ]
        with self.lock:
            return self._make_all([*removals, *wanted.values()])

    def _make_all(self, changes: list[DefinitionChange]) -> list[DefinitionChange]:
        """Make changes in an order in which each finds what it needs; give those that were not made already."""
        # Removed in the reverse of the order in which they are made: what belongs to something goes before it.
        made = sorted((change for change in changes if change.removed), key=lambda change: -change.kind)
        self._make(made)
        for change in in_order(change for change in changes if not change.removed):
            if change.kind == Kind.BINDING or self._payloads.get(change.key) != change.payload:
                made += self._replaced(change)
        return made

    def _replaced(self, change: DefinitionChange) -> list[DefinitionChange]:
        """Make a change; what is there in its place and is something else goes first."""
        try:
            self._make([change])
        except (PreconditionFailed, ResourceLocked):
            instead = [DefinitionChange(change.what | REMOVED, change.payload), change]
            self._make(instead)
            return instead
        return [change]

    def _taken(self) -> list[ChangeStep]:
        """What was noted, as the log has it."""
        noted, self._draft.noted = self._draft.noted, []
        steps = []
        for change in map(self._placed, noted):
            steps.append(ChangeStep(change, self._payloads.get(change.key)))
            self._keep(change)
        return steps

    def _placed(self, change: DefinitionChange) -> DefinitionChange:
        """A change that names the shard of a queue, which a new one gets here, in place of its number."""
        if change.kind != Kind.QUEUE:
            return change
        definition = change.definition
        del definition["id"]
        vhost, name = definition["vhost"], definition["name"]
        shard_id = self.shard_ids.get((vhost, name))
        if shard_id is None and "owner" in definition:
            shard_id = shard_id_of_owner(definition["owner"])
        elif shard_id is None:
            placed = self.placements.choose(vhost, name, _arguments(definition))
            shard_id = self.expected.pop((vhost, name), str(placed))
        return change_of(Kind.QUEUE, {**definition, "home": shard_id}, change.removed)

    def _keep(self, change: DefinitionChange) -> None:
        """Note the definition, and where a queue is."""
        if change.removed:
            self._payloads.pop(change.key, None)
        else:
            self._payloads[change.key] = change.payload
        if change.kind == Kind.QUEUE:
            definition = change.definition
            where, shard_id = (definition["vhost"], definition["name"]), definition["home"]
            if change.removed:
                self.shard_ids.pop(where, None)
                self.placements.drop(*where)
            else:
                self.shard_ids[where] = shard_id
                if not shard_id.startswith(LOCAL):
                    self.placements.put(*where, _arguments(definition), int(shard_id))


def _arguments(definition: dict[str, Any]) -> dict[str, Any] | None:
    stored = definition.get("arguments")
    return restored(stored) if stored else None


def in_order(changes: Iterable[DefinitionChange]) -> list[DefinitionChange]:
    """Definitions in the order in which each finds what it needs.

    The type that a virtual host gives to new queues comes last: those that are older than it have their own.
    """
    ordered = sorted(changes, key=lambda change: change.kind)
    hosts = [change for change in ordered if change.kind == Kind.VHOST and change.definition.get(DEFAULT_TYPE)]
    early = [change_of(Kind.VHOST, {**host.definition, DEFAULT_TYPE: None}) for host in hosts]
    return [*early, *(change for change in ordered if change not in hosts), *hosts]


class QueueDirectory:
    """The exchanges, bindings and queues of the whole cluster."""

    def __init__(self, shards: int, is_served: Callable[[str], bool] = lambda shard: True) -> None:
        """Nothing is known yet; `is_served` tells which shards this node has."""
        self._replica = Replica(shards)
        self._replica.tell_local(is_served)

    def follow(self, changes: list[DefinitionChange]) -> None:
        self._replica.make(change for change in changes if change.kind in IN_SHARDS)

    @contextmanager
    def definitions(self) -> Iterator[Broker]:
        """What there is in all shards, to be looked at in a block."""
        with self._replica.lock:
            yield self._replica.broker

    def reached(self, vhost: str, exchange: str, keys: Sequence[str], properties: Properties) -> dict[str, set[str]]:
        """The queues that a dead letter goes to, by shard."""
        found: dict[str, set[str]] = {}
        with self._replica.lock:
            virtual_host = self._replica.broker.topology.vhosts.get(vhost)
            if virtual_host is not None and exchange in virtual_host.exchanges:
                for queue in virtual_host.route(exchange, list(keys), properties.headers):
                    if not forms_cycle(properties, queue.name):
                        found.setdefault(self._replica.shard_ids[vhost, queue.name], set()).add(queue.name)
        return found
