"""Spans of offsets: how much of each partition one batch takes, and how that is cut into tasks."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple


class PartitionKey(NamedTuple):
    """A partition of a stream."""

    stream: str
    number: int


class OffsetSpan(NamedTuple):
    """The offsets of one partition from `first` to before `end`."""

    partition: PartitionKey
    first: int
    end: int

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.end - self.first


def split(spans: Iterable[OffsetSpan], tasks_min: int | None, rows_max: int | None) -> list[OffsetSpan]:
    """Cut spans so that there are at least so many tasks, none of them with more rows; empty ones are left out."""
    spans = [span for span in spans if span.rows > 0]
    total = sum(span.rows for span in spans)
    size = max(1, -(-total // (tasks_min or 1)))
    if rows_max is not None:
        size = min(size, rows_max)
    found = []
    for span in spans:
        count = -(-span.rows // size)
        edges = [span.first + span.rows * number // count for number in range(count + 1)]
        found += [OffsetSpan(span.partition, first, end) for first, end in pairwise(edges)]
    return found


def shared(available: Mapping[PartitionKey, int], total_max: int) -> dict[PartitionKey, int]:
    """A share of each partition, in proportion to what it has, so that together they are not more than a limit.

    Each that has something gets one at least, or none of a small stream would ever move; the largest pay for it.
    """
    total = sum(available.values())
    if total <= total_max:
        return dict(available)
    shares = {partition: rows * total_max // total for partition, rows in available.items()}
    left = total_max - sum(shares.values())
    for partition in sorted(available, key=lambda each: shares[each]):
        if left > 0 and shares[partition] < available[partition]:
            shares[partition] += 1
            left -= 1
    return shares
