"""What a history says about the promises of a cluster."""

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from tests.jepsen.history import CHANGE, DELIVER, FAULT, INVOKE, LOOK, OK, PUBLISH, READ, SETTLE, Operation
from tests.jepsen.stream_checker import StreamFindings, check_stream

BEFORE = "before the first fault"
BROKEN = ("lost", "out_of_order", "unexpected", "twice", "gaps", "came_back", "stale")
"""What a cluster that keeps its promises has none of."""

Name = tuple[str, str]
"""A message: its queue, and what it is called there."""


@dataclass(frozen=True)
class Promises:
    """What is promised of which queue, and what is not."""

    queues: Sequence[str]
    """Those that should take messages at any time."""
    unordered: Sequence[str] = ()
    """Those in which order is nobody's promise."""
    kept: Sequence[str] = ()
    """Those with one consumer: what it has or had does not come again on the same connection."""
    once: Sequence[str] = ()
    """Those that are emptied when all faults are over: what comes twice was there twice."""
    streams: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Streams, and who reads each of them."""
    definitions: str = ""
    """Where definitions are changed and looked at, if they are."""


@dataclass
class Tally:
    """What happened from the beginning of each fault of one kind until the next fault of any kind, or to one queue."""

    faults: int = 0
    acknowledged: int = 0
    lost: int = 0
    duplicated: int = 0
    out_of_order: int = 0
    gaps: int = 0
    stale: int = 0
    unavailable_s: list[float] = field(default_factory=list)
    """Of each fault: the longest time that some queue confirmed nothing."""


class Silence(NamedTuple):
    """How long, since when and of which queue nothing was confirmed after a fault; the longest is the greatest."""

    seconds: float
    since_s: float
    queue: str
    kind: str


@dataclass
class Findings:
    """Messages, counted; those that broke a promise are named."""

    invoked: int = 0
    acknowledged: int = 0
    delivered: int = 0
    changed: int = 0
    """Changes of definitions that were answered."""
    looks: int = 0
    """How often somebody looked at what they had made."""
    duplicated: int = 0
    returned: int = 0
    """Deliveries after the receipt of a message had been taken: by an owner that did not know of its successor yet."""
    lost: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    """Records and rows that are there a second time."""
    gaps: list[str] = field(default_factory=list)
    """Records behind an offset that a reader did not see, or that another one saw elsewhere."""
    came_back: list[str] = field(default_factory=list)
    """Messages that came again on the connection that had them."""
    stale: list[str] = field(default_factory=list)
    """What nodes said of definitions after a change of them had been answered."""
    silences: list[Silence] = field(default_factory=list)
    """One for each fault."""
    by_kind: dict[str, Tally] = field(default_factory=dict)
    by_queue: dict[str, Tally] = field(default_factory=dict)

    @property
    def wrong(self) -> bool:
        """Whether a promise was broken."""
        return any(getattr(self, name) for name in BROKEN)


def check(operations: Sequence[Operation], promises: Promises) -> Findings:
    """Look for broken promises."""
    faults = [each for each in operations if each.what == FAULT and each.outcome == INVOKE]
    published = [each for each in operations if each.what == PUBLISH]
    delivered = [each for each in operations if each.what == DELIVER]
    streams = {
        stream: check_stream([each for each in operations if each.what == READ and each.queue == stream], readers)
        for stream, readers in promises.streams.items()
    }
    invoked = {_name(each) for each in published if each.outcome == INVOKE}
    safe = {_name(each): each for each in published if each.outcome == OK}
    come = {_name(each) for each in delivered} | {(name, each) for name, log in streams.items() for each in log.come}
    again = [each for each in repeated(delivered) if not (each.queue in promises.once and not each.again)]
    changed = [each for each in operations if each.what == CHANGE and each.outcome == OK]
    wrong = _Wrong(promises, delivered, streams)
    wrong_looks = stale(operations)
    lost = safe.keys() - come
    tallies = _Tallies(faults, promises)
    tallies.count("acknowledged", [*safe.values(), *changed])
    tallies.count("stale", wrong_looks)
    tallies.count("lost", (safe[name] for name in lost))
    tallies.count("duplicated", [*again, *wrong.twice])
    tallies.count("out_of_order", wrong.out_of_order)
    tallies.count("gaps", wrong.gaps)
    silences = unavailable(faults, published, promises.queues)
    for silence in silences:
        tallies.by_kind[silence.kind].unavailable_s.append(silence.seconds)
    return Findings(
        invoked=len(invoked),
        acknowledged=len(safe),
        delivered=len(come),
        changed=len(changed),
        looks=sum(each.what == LOOK for each in operations),
        duplicated=len(again),
        returned=returned(operations),
        lost=named(lost),
        out_of_order=named(map(_name, wrong.out_of_order)),
        unexpected=named(come - invoked),
        twice=named(map(_name, wrong.twice)),
        gaps=named(map(_name, wrong.gaps)),
        came_back=named(map(_name, came_back(each for each in delivered if each.queue in promises.kept))),
        stale=named(map(_name, wrong_looks)),
        silences=silences,
        by_kind=dict(tallies.by_kind),
        by_queue=dict(tallies.by_queue),
    )


class _Wrong:
    """Messages and records that are not where they should be."""

    def __init__(
        self, promises: Promises, delivered: Sequence[Operation], streams: Mapping[str, StreamFindings]
    ) -> None:
        rows = [each for each in delivered if each.queue in promises.once and not each.again]
        self.twice = [*repeated(rows), *(each for log in streams.values() for each in log.twice)]
        self.out_of_order = disorder(each for each in delivered if each.queue not in promises.unordered)
        for stream, log in streams.items():
            if stream not in promises.unordered:
                self.out_of_order += log.out_of_order
        self.gaps = [each for log in streams.values() for each in log.gaps]


class _Tallies:
    """Tallies by kind of fault, found by time, and by queue."""

    def __init__(self, faults: Sequence[Operation], promises: Promises) -> None:
        self.by_kind: defaultdict[str, Tally] = defaultdict(Tally)
        self.by_queue: defaultdict[str, Tally] = defaultdict(Tally)
        self._starts = [each.at_s for each in faults]
        self._names = [BEFORE, *(each.who for each in faults)]
        for each in faults:
            self.by_kind[each.who].faults += 1
        for queue in (*promises.queues, *promises.once, *promises.streams, *filter(None, [promises.definitions])):
            self.by_queue[queue]  # also if nothing happens to it

    def count(self, column: str, operations: Iterable[Operation]) -> None:
        """Count what happened: for the fault that was the last one, and for the queue."""
        for each in operations:
            kind = self._names[bisect(self._starts, each.at_s)]
            for tally in (self.by_kind[kind], self.by_queue[each.queue]):
                setattr(tally, column, getattr(tally, column) + 1)


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


def came_back(delivered: Iterable[Operation]) -> list[Operation]:
    """Deliveries on a connection that had them before."""
    seen: set[tuple[str, Name]] = set()
    found = []
    for each in delivered:
        if (each.who, _name(each)) in seen:
            found.append(each)
        seen.add((each.who, _name(each)))
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


def stale(operations: Iterable[Operation]) -> list[Operation]:
    """Looks that saw something else than what the last change had made, which was answered."""
    made: dict[str, str] = {}
    found = []
    for each in operations:
        if each.what in (CHANGE, LOOK):
            thing, _, state = each.message.rpartition(" ")
            if each.what == LOOK and made.get(thing, state) != state:
                found.append(each)
            elif each.what == CHANGE and each.outcome == OK:
                made[thing] = state
            elif each.what == CHANGE:
                made.pop(thing, None)  # until it is answered, either may be seen
    return found


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


def unavailable(faults: Sequence[Operation], published: Sequence[Operation], queues: Sequence[str]) -> list[Silence]:
    """Of each fault the longest time that some queue confirmed nothing until the next one."""
    last_s = max((each.at_s for each in published), default=0.0)
    confirmed: dict[str, list[float]] = {queue: [] for queue in queues}
    for each in published:
        if each.outcome == OK and each.queue in confirmed:
            confirmed[each.queue].append(each.at_s)
    marks = [*((each.at_s, each.who) for each in faults), (last_s, "")]
    return [
        max(Silence(*longest_gap(times, start_s, end_s), queue, kind) for queue, times in confirmed.items())
        for (start_s, kind), (end_s, _) in pairwise(marks)
    ]


def longest_gap(times: Sequence[float], start_s: float, end_s: float) -> tuple[float, float]:
    """The longest time between two of these, within a span, and when it began."""
    within = times[bisect(times, start_s) : bisect(times, end_s)]
    return max((round(after - before, 3), before) for before, after in pairwise([start_s, *within, end_s]))
