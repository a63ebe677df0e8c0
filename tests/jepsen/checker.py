"""What a history says about the promises of a cluster."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.jepsen.history import DELIVER, FAULT, INVOKE, OK, PUBLISH, Operation


@dataclass
class Findings:
    """Messages, counted; those that broke a promise are named."""

    invoked: int = 0
    acknowledged: int = 0
    delivered: int = 0
    duplicated: int = 0
    lost: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    unavailable_s: dict[str, list[float]] = field(default_factory=dict)

    @property
    def wrong(self) -> bool:
        """Whether a promise was broken."""
        return bool(self.lost or self.out_of_order or self.unexpected)


def check(operations: Sequence[Operation], queues: Sequence[str]) -> Findings:
    """Look for broken promises."""
    published = [each for each in operations if each.what == PUBLISH]
    delivered = [each for each in operations if each.what == DELIVER]
    invoked = {(each.queue, each.message) for each in published if each.outcome == INVOKE}
    safe = {(each.queue, each.message) for each in published if each.outcome == OK}
    times = Counter((each.queue, each.message) for each in delivered)
    return Findings(
        invoked=len(invoked),
        acknowledged=len(safe),
        delivered=len(times),
        duplicated=sum(count - 1 for count in times.values()),
        lost=named(safe - times.keys()),
        out_of_order=disorder(delivered),
        unexpected=named(times.keys() - invoked),
        unavailable_s=unavailable(operations, queues),
    )


def named(messages: Iterable[tuple[str, str]]) -> list[str]:
    """Messages as a person reads them."""
    return sorted(f"{message} in {queue}" for queue, message in messages)


def disorder(delivered: Iterable[Operation]) -> list[str]:
    """Messages that came for the first time after a later one of their line, and are not said to come again."""
    last: dict[tuple[str, str], int] = defaultdict(int)
    seen: set[tuple[str, str]] = set()
    found = []
    for each in delivered:
        line, number = each.message.split()
        message, place = (each.queue, each.message), (each.queue, line)
        if message not in seen and not each.again and int(number) < last[place]:
            found.append(message)
        seen.add(message)
        last[place] = max(last[place], int(number))
    return named(found)


def unavailable(operations: Sequence[Operation], queues: Sequence[str]) -> dict[str, list[float]]:
    """By kind of fault, of each one: the longest time that some queue confirmed nothing until the next fault."""
    starts = [(each.at_s, each.who) for each in operations if each.what == FAULT and each.outcome == INVOKE]
    last_s = max((each.at_s for each in operations if each.what == PUBLISH), default=0.0)
    confirmed: dict[str, list[float]] = {queue: [] for queue in queues}
    for each in operations:
        if each.what == PUBLISH and each.outcome == OK:
            confirmed[each.queue].append(each.at_s)
    found: dict[str, list[float]] = defaultdict(list)
    for (start_s, kind), (end_s, _) in pairwise([*starts, (last_s, "")]):
        found[kind].append(max(longest_gap(times, start_s, end_s) for times in confirmed.values()))
    return dict(found)


def longest_gap(times: Sequence[float], start_s: float, end_s: float) -> float:
    """The longest time between two of these, within a span."""
    marks = [start_s, *(at_s for at_s in times if start_s < at_s < end_s), end_s]
    return round(max(after - before for before, after in pairwise(marks)), 3)
