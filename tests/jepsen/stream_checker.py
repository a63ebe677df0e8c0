"""What a history says about one stream: each reader is to see the same records at the same offsets, and all of them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests.jepsen.history import Operation


@dataclass
class StreamFindings:
    """What is wrong with what was read; `come` are the names of those records that every reader has."""

    come: set[str]
    twice: list[Operation]
    """Records at a second offset."""
    out_of_order: list[Operation]
    """Records behind a later one of the same publisher, in the same partition."""
    gaps: list[Operation]
    """Records that came to a reader although the offset before theirs had not, or that another reader saw elsewhere."""


def check_stream(read: Sequence[Operation], readers: Iterable[str]) -> StreamFindings:
    """Look at all that was read of a stream; `readers` are those who should have read it."""
    first: dict[tuple[int, int], Operation] = {}
    changed = [each for each in read if first.setdefault(place_of(each), each).message != each.message]
    log = [first[place] for place in sorted(first)]
    seen: defaultdict[str, set[str]] = defaultdict(set)
    for each in read:
        seen[each.who].add(each.message)
    return StreamFindings(
        come=set.intersection(*(seen[reader] for reader in readers)),
        twice=list(repeated(log)),
        out_of_order=list(reversed_records(log)),
        gaps=[*skipped(read), *changed],
    )


def place_of(record: Operation) -> tuple[int, int]:
    """Where a record is."""
    return record.partition, record.offset


def repeated(log: Iterable[Operation]) -> Iterator[Operation]:
    """Records that are there a second time."""
    known: set[str] = set()
    for each in log:
        if each.message in known:
            yield each
        known.add(each.message)


def reversed_records(log: Iterable[Operation]) -> Iterator[Operation]:
    """Records behind a later one of their publisher."""
    last: defaultdict[tuple[int, str], int] = defaultdict(int)
    for each in log:
        line, number = each.message.split()
        if int(number) < last[each.partition, line]:
            yield each
        last[each.partition, line] = max(last[each.partition, line], int(number))


def skipped(read: Iterable[Operation]) -> Iterator[Operation]:
    """Records whose reader did not go on with the next offset."""
    following: defaultdict[tuple[str, int], int] = defaultdict(int)
    for each in read:
        if each.offset != following[each.who, each.partition]:
            yield each
        following[each.who, each.partition] = each.offset + 1
