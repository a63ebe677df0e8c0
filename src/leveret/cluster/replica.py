"""A copy of all definitions: a broker without messages, and the same as the log has them.

Verbs are run on it, and what they would journal can be undone: as long as it is not in the log it was only an attempt.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from leveret.cluster.changes import SHARED, Change, Key, apply, change_of, inverse
from leveret.cluster.placement import Placements
from leveret.core.broker import Broker
from leveret.core.catalog import REMOVED, Kind
from leveret.core.errors import PreconditionFailed
from leveret.core.jsonable import decode
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


class NoRecords(Recorder):
    """A stream without records."""

    @property
    def length(self) -> int:
        """See Recorder."""
        return 0

    @property
    def size_bytes(self) -> int:
        """See Recorder."""
        return 0


class StreamNames(NoStreams):
    """The streams of a broker without messages."""

    def recorder_of(self, queue: Queue) -> Recorder:
        """One that has nothing."""
        return NoRecords()


class Replica:
    """All definitions."""

    def __init__(self, shards: int) -> None:
        """None yet."""
        self._draft = Draft()
        self._draft.noted = []
        self._payloads: dict[Key, bytes] = {}
        self.broker = Broker(self._draft)
        self.broker.streams = StreamNames()
        self.placements = Placements(shards)

    def changes(self) -> list[Change]:
        """What makes an empty copy equal to this one."""
        return [Change(kind, payload) for (kind, _), payload in self._payloads.items()]

    def run(self, verb: Callable[[Broker], Any]) -> tuple[Any, list[Step]]:
        """Run a verb; give its result and what it changed. A refused one changes nothing."""
        try:
            result = verb(self.broker)
        except BaseException:
            self.undo(self._taken())
            raise
        return result, self._taken()

    def undo(self, steps: list[Step]) -> None:
        """Take back what verbs did last."""
        before = {change.key: inverse(change, before) for change, before in reversed(steps)}
        self._make_all(list(before.values()))

    def make(self, changes: Iterable[Change]) -> None:
        """Make changes that are in the log."""
        for change in changes:
            apply(self.broker, change)
            self._keep(change)
        # An exchange deletes itself with its last binding: not if it was there before an attempt to bind it.
        dragged = {change.key for change in self._draft.noted if change.removed} & self._payloads.keys()
        for change in _in_order(Change(key[0], self._payloads[key]) for key in dragged):
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
        return self._make_all([*removals, *wanted.values()])

    def _make_all(self, changes: list[Change]) -> list[Change]:
        """Make changes in an order in which each finds what it needs; give those that were not made already."""
        # Removed in the reverse of the order in which they are made: what belongs to something goes before it.
        made = sorted((change for change in changes if change.removed), key=lambda change: -change.kind)
        self.make(made)
        for change in _in_order(change for change in changes if not change.removed):
            if change.kind == Kind.BINDING or self._payloads.get(change.key) != change.payload:
                made += self._replaced(change)
        return made

    def _replaced(self, change: Change) -> list[Change]:
        """Make a change; what is there in its place and is something else goes first."""
        try:
            self.make([change])
        except PreconditionFailed:
            instead = [Change(change.what | REMOVED, change.payload), change]
            self.make(instead)
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
        """A change that names the shard of a queue, which a new one gets here, in place of its number."""
        if change.kind != Kind.QUEUE:
            return change
        definition = change.definition
        del definition["id"]
        vhost, name = definition["vhost"], definition["name"]
        shard = self.placements.shard_of(vhost, name)
        if shard is None:
            shard = self.placements.choose(vhost, name, _arguments(definition))
        return change_of(Kind.QUEUE, {**definition, "shard": shard}, change.removed)

    def _keep(self, change: Change) -> None:
        """Note the definition, and where a queue is."""
        if change.removed:
            self._payloads.pop(change.key, None)
        else:
            self._payloads[change.key] = change.payload
        if change.kind == Kind.QUEUE:
            definition = change.definition
            where = definition["vhost"], definition["name"]
            if change.removed:
                self.placements.drop(*where)
            else:
                self.placements.put(*where, _arguments(definition), definition["shard"])


def _arguments(definition: dict[str, Any]) -> dict[str, Any] | None:
    stored = definition.get("arguments")
    return decode(stored) if stored else None


def _in_order(changes: Iterable[Change]) -> list[Change]:
    """Definitions in the order in which each finds what it needs.

    The type that a virtual host gives to new queues comes last: those that are older than it have their own.
    """
    ordered = sorted(changes, key=lambda change: change.kind)
    hosts = [change for change in ordered if change.kind == Kind.VHOST and change.definition.get(DEFAULT_TYPE)]
    early = [change_of(Kind.VHOST, {**host.definition, DEFAULT_TYPE: None}) for host in hosts]
    return [*early, *(change for change in ordered if change not in hosts), *hosts]
