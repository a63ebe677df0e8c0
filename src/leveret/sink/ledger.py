"""The ledger of sinks: which batches were decided on, how far each is published, and which were.

A decision names the parts that won. From the moment that it is durable the batch is to be published, whatever happens.
How far it is stands in the frame with the messages themselves, so that a crash neither loses nor doubles one of them.
All of it are definitions of the core, to be used under its lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from leveret.core.broker import Broker
from leveret.core.catalog import Kind
from leveret.core.errors import NotFound, PreconditionFailed, TooMany

SINKS_MAX = 10_000  # each is remembered until somebody deletes it
ONCE_MAX = 100_000  # sinks that are used for one batch only, and forgotten after a while


class Sink(NamedTuple):
    """A sink belongs to a user and writes to one virtual host: nobody can use the name of another's."""

    vhost: str
    user: str
    name: str


class Share(NamedTuple):
    """A staged part of a batch: its name and the number of its pieces."""

    part: str
    pieces: int


@dataclass(slots=True)
class Batch:
    """A batch that was decided on; `shares` are there until all of it is published."""

    sink: Sink
    number: int
    rows: int
    decided_ms: int
    origin: str = ""
    once: bool = False
    shares: tuple[Share, ...] = ()
    done: int = 0
    """Rows that are published, or dropped."""
    dropped: int = 0
    """Rows that no queue took."""
    published: bool = field(default=False)

    @property
    def key(self) -> dict[str, Any]:
        """What its definitions are known by."""
        return {**self.sink._asdict(), "batch": self.number}


class Ledger:
    """The batches of all sinks."""

    def __init__(self, core: Broker, batches_max: int) -> None:
        """Take up what the journal knows; of each sink so many batches are remembered."""
        self._core = core
        self._batches_max = batches_max
        self._sinks: dict[Sink, dict[int, Batch]] = {}
        for stored in sorted(core.catalog.of(Kind.SINK_BATCH), key=lambda row: (row["decided_ms"], row["batch"])):
            batch = _batch(stored)
            progress = core.catalog.get(Kind.SINK_PROGRESS, **batch.key)
            if progress is not None:
                batch.done, batch.dropped = progress["done"], progress["dropped"]
            self._sinks.setdefault(batch.sink, {})[batch.number] = batch

    def find(self, sink: Sink, number: int, origin: str) -> Batch | None:
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

    def decide(self, batch: Batch) -> None:
        """Journal that a batch is to be published."""
        others = self._sinks.get(batch.sink)
        if others is None and not batch.once and sum(not _is_once(each) for each in self._sinks.values()) >= SINKS_MAX:
            raise TooMany(f"there are {SINKS_MAX} sinks, which is the limit: delete those that no query uses any more")
        self._sinks.setdefault(batch.sink, {})[batch.number] = batch
        self._define(batch)

    def advance(self, batch: Batch, done: int, dropped: int) -> None:
        """Journal how far a batch is published; in the frame with its messages."""
        batch.done, batch.dropped = done, dropped
        self._core.define(Kind.SINK_PROGRESS, {**batch.key, "done": done, "dropped": dropped})

    def finish(self, batch: Batch) -> None:
        """Journal that all of a batch is published; forget the oldest ones of its sink."""
        batch.published = True
        batch.shares = ()
        self._define(batch)
        self._core.undefine(Kind.SINK_PROGRESS, batch.key)
        batches = self._sinks[batch.sink]
        for number in sorted(batches)[: -self._batches_max]:
            if batches[number].published:
                self._forget(batches[number])

    def unfinished(self) -> list[Batch]:
        """What is to be published still."""
        return [batch for batches in self._sinks.values() for batch in batches.values() if not batch.published]

    def of(self, vhost: str, user: str) -> Iterator[tuple[Sink, list[Batch]]]:
        """The sinks of a user by name, each with its batches in order."""
        for sink in sorted(each for each in self._sinks if each[:2] == (vhost, user)):
            yield sink, [batch for _, batch in sorted(self._sinks[sink].items())]

    def delete(self, sink: Sink) -> None:
        """Forget a sink."""
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

    def _define(self, batch: Batch) -> None:
        told = {**batch.key, "rows": batch.rows, "dropped": batch.dropped, "decided_ms": batch.decided_ms}
        told |= {"origin": batch.origin, "once": batch.once, "published": batch.published}
        self._core.define(Kind.SINK_BATCH, {**told, "shares": batch.shares})

    def _forget(self, batch: Batch) -> None:
        self._core.undefine(Kind.SINK_BATCH, batch.key)
        batches = self._sinks[batch.sink]
        del batches[batch.number]
        if not batches:
            del self._sinks[batch.sink]


def _is_once(batches: dict[int, Batch]) -> bool:
    return all(batch.once for batch in batches.values())


def _batch(stored: dict[str, Any]) -> Batch:
    """The reverse of Ledger._define."""
    return Batch(
        Sink(stored["vhost"], stored["user"], stored["name"]),
        stored["batch"],
        stored["rows"],
        stored["decided_ms"],
        stored["origin"],
        stored["once"],
        tuple(Share(part, pieces) for part, pieces in stored["shares"]),
        done=stored["rows"] if stored["published"] else 0,
        dropped=stored["dropped"],
        published=stored["published"],
    )
