"""Redrive: messages that wait in a queue, mostly dead letters, are moved to where they died, or to another queue.

Spark chooses; the broker moves, each message in one step: what is interrupted is simply run again. Messages that are
to be changed, or to go to an exchange, are first moved to a queue of their own, and from there through the sink
(transfer.py).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from pyspark.sql import DataFrame

from leveret.client.queue import RemoteQueue
from leveret.spark.edits import chosen
from leveret.spark.publishing import Pace

STEP = 1_000
"""Messages that one request moves: as many as a filter of the broker may name."""

Told = Callable[[int, int], None]


@dataclass
class Redriven:
    """What was moved; `skipped` were taken by a consumer meanwhile, or have nowhere to go."""

    matched: int = 0
    moved: int = 0

    @property
    def skipped(self) -> int:
        """Those that are still where they were, or were taken."""
        return self.matched - self.moved


def redrive(
    rows: DataFrame,
    where: str | None,
    limit: int | None,
    queue: RemoteQueue,
    to: str | None,
    pace: Pace,
    told: Told = lambda moved, matched: None,
) -> Redriven:
    """Move the messages of a queue that a condition chooses; None: each to the queue where it died first."""
    found = chosen(rows, where).orderBy("offset").select("offset")
    numbers = [row["offset"] for row in (found if limit is None else found.limit(limit)).toLocalIterator()]
    done = Redriven(matched=len(numbers))
    for some in _batched(numbers, min(STEP, pace.batch_rows())):
        pace.wait(len(some))
        done.moved += queue.redrive(to, limit=len(some), message_ids=some).moved
        told(done.moved, done.matched)
    return done


def _batched(numbers: list[int], count: int) -> Iterator[list[int]]:
    """Numbers, so many at a time."""
    rest = iter(numbers)
    while some := list(islice(rest, count)):
        yield some
