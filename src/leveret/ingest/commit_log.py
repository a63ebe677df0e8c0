"""The commit log of sinks: which batches were decided on, how far each is published, and which were.

A decision names the parts that won. From the moment that it is durable the batch is to be published, whatever happens.
How far it is stands in the commit batch with the messages themselves, so that a crash neither loses nor doubles one of
them. All of it are definitions of the core, to be used under its lock.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, NamedTuple

from leveret.core.broker import Broker
from leveret.core.definition_log import Kind
from leveret.core.errors import NotFound, PreconditionFailed, TooMany

SINKS_MAX = 10_000  # each is remembered until it is deleted
SINKS_USER_MAX = 2_000  # one user cannot take all of them
ONCE_MAX = 100_000  # sinks that are used for one batch only, and forgotten after a while
ONCE_USER_MAX = 20_000  # one user cannot make the broker forget those of others
_DEFINED = ("rows", "dropped", "decided_ms", "origin", "once", "published", "producer")
"""What the definition of a batch says beside its key and shares."""


class Sink(NamedTuple):
    """A sink belongs to a user and writes to one virtual host: no user can use the name of another's."""

    vhost: str
    user: str
    name: str


class CommittedPart(NamedTuple):
    """A staged part of a batch: its name and the number of its pieces."""

    part: str
    row_groups: int


@dataclass(slots=True)
class IngestBatch:
    """A batch that was decided on; `shares` are there until all of it is published."""

    sink: Sink
    number: int
    rows: int
    decided_ms: int
    origin: str = ""
    once: bool = False
    shares: tuple[CommittedPart, ...] = ()
    done: int = 0
    """Rows that are published, or dropped."""
    dropped: int = 0
    """Rows that no queue took."""
    published: bool = field(default=False)
    producer: str = field(default_factory=lambda: f"sink-{token_hex(8)}")
    """What streams know its rows by until all of it is published."""

    @property
    def key(self) -> dict[str, Any]:
        return {**self.sink._asdict(), "batch": self.number}


class CommitLog:
    """The batches of all sinks."""

    def __init__(self, core: Broker, batches_max: int) -> None:
        """Take up what the journal knows; of each sink so many batches are remembered."""
        self._core = core
        self._batches_max = batches_max
        self._sinks: dict[Sink, dict[int, IngestBatch]] = {}
        self._lasting: dict[str, dict[Sink, None]] = {}
        """Sinks of streaming queries, by user; those of single batches are in `_once`. Both in the order of time."""
        self._once: dict[str, dict[Sink, None]] = {}
        for stored in sorted(core.catalog.of(Kind.SINK_BATCH), key=lambda row: (row["decided_ms"], row["batch"])):
            batch = _batch(stored)
            progress = core.catalog.get(Kind.SINK_PROGRESS, **batch.key)
            if progress is not None:
                batch.done, batch.dropped = progress["done"], progress["dropped"]
            self._add(batch)

    def find(self, sink: Sink, number: int, origin: str) -> IngestBatch | None:
        """The batch of that number, if it was decided on; refuse one that another query has, or that is long past."""
        batches = self._sinks.get(sink, {})
        found = batches.get(number)
        if found is not None and found.origin != origin:
            raise PreconditionFailed(
                f"batch {number} of sink '{sink.name}' was committed by another query or checkpoint: give this one a "
                "sink id of its own, or delete the sink"
            )
        if found is None and batches and number < max(batches):
            raise PreconditionFailed(
                f"sink '{sink.name}' is at batch {max(batches)}, and whether it had batch {number} is no longer known: "
                "give a query with a new checkpoint a new sink id, or delete the sink"
            )
        return found

    def decide(self, batch: IngestBatch) -> None:
        """Journal that a batch is to be published."""
        sink = batch.sink
        if not batch.once and sink not in self._lasting.get(sink.user, ()):
            self._check_room(sink)
        while batch.once and len(self._once.get(sink.user, ())) >= ONCE_USER_MAX and self._forget_once(sink.user):
            pass
        self._add(batch)
        self._define(batch)

    def _check_room(self, sink: Sink) -> None:
        """Refuse a sink more of a user, or of all users."""
        of_user, of_all = len(self._lasting.get(sink.user, ())), sum(map(len, self._lasting.values()))
        for used, most, whose in ((of_user, SINKS_USER_MAX, "of this user"), (of_all, SINKS_MAX, "of all users")):
            if used >= most:
                raise TooMany(
                    f"there are {most} sinks {whose}, which is the limit: delete those that no query uses any more"
                )

    def _forget_once(self, user: str) -> bool:
        """Forget the oldest published batch among the single ones of a user; False: there is none."""
        for sink in self._once[user]:
            batches = self._sinks[sink]
            if all(batch.published for batch in batches.values()):
                for batch in list(batches.values()):
                    self._forget(batch)
                return True
        return False

    def advance(self, batch: IngestBatch, done: int, dropped: int) -> None:
        """Journal how far a batch is published; in the commit batch with its messages."""
        batch.done, batch.dropped = done, dropped
        self._core.define(Kind.SINK_PROGRESS, {**batch.key, "done": done, "dropped": dropped})

    def finish(self, batch: IngestBatch) -> None:
        """Journal that all of a batch is published; forget the oldest ones of its sink."""
        batch.published = True
        batch.shares = ()
        self._define(batch)
        self._core.undefine(Kind.SINK_PROGRESS, batch.key)
        batches = self._sinks[batch.sink]
        for number in sorted(batches)[: -self._batches_max]:
            if batches[number].published:
                self._forget(batches[number])

    def unfinished(self) -> list[IngestBatch]:
        return [batch for batches in self._sinks.values() for batch in batches.values() if not batch.published]

    def of(self, vhost: str, user: str) -> Iterator[tuple[Sink, list[IngestBatch]]]:
        """The sinks of a user by name, each with its batches in order."""
        for sink in sorted(each for each in self._sinks if each[:2] == (vhost, user)):
            yield sink, [batch for _, batch in sorted(self._sinks[sink].items())]

    def delete(self, sink: Sink) -> None:
        batches = self._sinks.get(sink)
        if batches is None:
            raise NotFound(f"there is no sink '{sink.name}': it was deleted, or has never committed")
        if not all(batch.published for batch in batches.values()):
            raise PreconditionFailed(f"a batch of sink '{sink.name}' is being published: wait for it")
        for batch in list(batches.values()):
            self._forget(batch)

    def expire(self, before_ms: int) -> None:
        """Forget the sinks of single batches that were published long ago, or are too many."""
        once = [each for batches in self._sinks.values() if _is_once(batches) for each in batches.values()]
        over = len(once) - ONCE_MAX
        for position, batch in enumerate(sorted(once, key=lambda each: each.decided_ms)):
            if batch.published and (batch.decided_ms < before_ms or position < over):
                self._forget(batch)

    def _define(self, batch: IngestBatch) -> None:
        told = {name: getattr(batch, name) for name in _DEFINED}
        self._core.define(Kind.SINK_BATCH, {**batch.key, **told, "shares": batch.shares})

    def _forget(self, batch: IngestBatch) -> None:
        self._core.undefine(Kind.SINK_BATCH, batch.key)
        batches = self._sinks[batch.sink]
        del batches[batch.number]
        if not batches:
            del self._sinks[batch.sink]
        self._file(batch.sink)

    def _add(self, batch: IngestBatch) -> None:
        self._sinks.setdefault(batch.sink, {})[batch.number] = batch
        self._file(batch.sink)

    def _file(self, sink: Sink) -> None:
        """Count a sink among those of its user, by whether all of its batches are single ones."""
        batches = self._sinks.get(sink)
        for rows, belongs in (
            (self._lasting, batches is not None and not _is_once(batches)),
            (self._once, batches is not None and _is_once(batches)),
        ):
            of_user = rows.setdefault(sink.user, {})
            if belongs:
                of_user.setdefault(sink)
            else:
                of_user.pop(sink, None)
            if not of_user:
                del rows[sink.user]


def _is_once(batches: dict[int, IngestBatch]) -> bool:
    return all(batch.once for batch in batches.values())


def _batch(stored: dict[str, Any]) -> IngestBatch:
    sink = Sink(stored["vhost"], stored["user"], stored["name"])
    shares = tuple(CommittedPart(part, row_groups) for part, row_groups in stored["shares"])
    done = stored["rows"] if stored["published"] else 0
    return IngestBatch(sink, stored["batch"], shares=shares, done=done, **{name: stored[name] for name in _DEFINED})
