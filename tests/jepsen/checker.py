"""What a history says about the promises of a cluster."""

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.jepsen.history import DELIVER, FAULT, INVOKE, OK, PUBLISH, SETTLE, Operation

BEFORE = "before the first fault"

Name = tuple[str, str]
"""A message: its queue, and what it is called there."""


@dataclass
class Tally:
    """What happened from the beginning of each fault of one kind until the next fault of any kind."""

    faults: int = 0
    acknowledged: int = 0
    lost: int = 0
    duplicated: int = 0
    out_of_order: int = 0
    unavailable_s: list[float] = field(default_factory=list)
    """Of each fault: the longest time that some queue confirmed nothing."""


@dataclass
class Findings:
    """Messages, counted; those that broke a promise are named."""

    invoked: int = 0
    acknowledged: int = 0
    delivered: int = 0
    duplicated: int = 0
    returned: int = 0
    """Deliveries after the receipt of a message had been taken: by an owner that did not know of its successor yet."""
    lost: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    by_kind: dict[str, Tally] = field(default_factory=dict)

    @property
    def wrong(self) -> bool:
        """Whether a promise was broken."""
        return bool(self.lost or self.out_of_order or self.unexpected)


def check(operations: Sequence[Operation], queues: Sequence[str], unordered: Sequence[str] = ()) -> Findings:
    """Look for broken promises; the order of some queues is nobody's promise."""
    faults = [each for each in operations if each.what == FAULT and each.outcome == INVOKE]
    kinds = _Kinds(faults)
    published = [each for each in operations if each.what == PUBLISH]
    delivered = [each for each in operations if each.what == DELIVER]
    invoked = {_name(each) for each in published if each.outcome == INVOKE}
    safe = {_name(each): each.at_s for each in published if each.outcome == OK}
    come = {_name(each) for each in delivered}
    lost = safe.keys() - come
    late = disorder(each for each in delivered if each.queue not in unordered)
    twice = repeated(delivered)
    for each_s in safe.values():
        kinds.at(each_s).acknowledged += 1
    for name in lost:
        kinds.at(safe[name]).lost += 1
    for each in late:
        kinds.at(each.at_s).out_of_order += 1
    for each in twice:
        kinds.at(each.at_s).duplicated += 1
    for kind, gap_s in unavailable(faults, published, queues):
        kinds.by_name[kind].unavailable_s.append(gap_s)
    return Findings(
        invoked=len(invoked),
        acknowledged=len(safe),
        delivered=len(come),
        duplicated=len(twice),
        returned=returned(operations),
        lost=named(lost),
        out_of_order=named(_name(each) for each in late),
        unexpected=named(come - invoked),
        by_kind=dict(kinds.by_name),
    )


class _Kinds:
    """Tallies by kind of fault, found by time."""

    def __init__(self, faults: Sequence[Operation]) -> None:
        self.by_name: defaultdict[str, Tally] = defaultdict(Tally)
        self._starts = [each.at_s for each in faults]
        self._names = [BEFORE, *(each.who for each in faults)]
        for each in faults:
            self.by_name[each.who].faults += 1

    def at(self, at_s: float) -> Tally:
        """That of the fault that was the last one."""
        return self.by_name[self._names[bisect(self._starts, at_s)]]


def _name(operation: Operation) -> Name:
    return operation.queue, operation.message


def named(messages: Iterable[Name]) -> list[str]:
    """Messages as a person reads them."""
    return sorted(f"{message} in {queue}" for queue, message in messages)


def repeated(delivered: Iterable[Operation]) -> list[Operation]:
    """Deliveries of what had come before."""
    seen: set[Name] = set()
    found = []
    for each in delivered:
        if _name(each) in seen:
            found.append(each)
        seen.add(_name(each))
    return found


def returned(operations: Iterable[Operation]) -> int:
    """How many deliveries there were of messages that had been settled."""
    settled: set[Name] = set()
    count = 0
    for each in operations:
        if each.what == SETTLE:
            settled.add(_name(each))
        elif each.what == DELIVER:
            count += _name(each) in settled
    return count


def disorder(delivered: Iterable[Operation]) -> list[Operation]:
    """Messages that came for the first time after a later one of their line, and are not said to come again."""
    last: dict[Name, int] = defaultdict(int)
    seen: set[Name] = set()
    found = []
    for each in delivered:
        line, number = each.message.split()
        place = each.queue, line
        if _name(each) not in seen and not each.again and int(number) < last[place]:
            found.append(each)
        seen.add(_name(each))
        last[place] = max(last[place], int(number))
    return found


def unavailable(
    faults: Sequence[Operation], published: Sequence[Operation], queues: Sequence[str]
) -> list[tuple[str, float]]:
    """The kind of each fault, and the longest time that some queue confirmed nothing until the next fault."""
    last_s = max((each.at_s for each in published), default=0.0)
    confirmed: dict[str, list[float]] = {queue: [] for queue in queues}
    for each in published:
        if each.outcome == OK:
            confirmed[each.queue].append(each.at_s)
    marks = [*((each.at_s, each.who) for each in faults), (last_s, "")]
    return [
        (kind, max(longest_gap(times, start_s, end_s) for times in confirmed.values()))
        for (start_s, kind), (end_s, _) in pairwise(marks)
    ]


def longest_gap(times: Sequence[float], start_s: float, end_s: float) -> float:
    """The longest time between two of these, within a span."""
    within = times[bisect(times, start_s) : bisect(times, end_s)]
    return round(max(after - before for before, after in pairwise([start_s, *within, end_s])), 3)
