"""Figures: rows of the tables of metrics, for the whole broker or for each of many objects."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from leveret.core.histogram import Histogram
from leveret.observability.exposition import Family, Format, Kind, Labels, histogram, sample

Number = int | float


class Times(NamedTuple):
    """A histogram to be written: in which unit its values are, and what its edges are called."""

    counted: Histogram
    edges: tuple[str, ...]
    units: int = 1
    """How many units of its values are one of the metric: 1,000 for ms that become seconds."""


Told = Number | None | Mapping[Labels, Number] | Times
"""One number, one for each set of labels, a histogram, or nothing."""


class BrokerMetric(NamedTuple):
    """A metric of the whole broker."""

    family: Family
    of: Callable[[Any], Told]

    def write(self, format: Format, facts: Any) -> str:
        """The lines of the metric; none at all when there is nothing to say."""
        name, told = self.family.name, self.of(facts)
        if told is None:
            return ""
        if isinstance(told, Times):
            counted = told.counted
            lines = histogram(name, "", counted.buckets, counted.sum / told.units, told.edges)
        elif isinstance(told, Mapping):
            lines = "".join([sample(name, labels, value) for labels, value in told.items()])
        else:
            lines = sample(name, "", told)
        return format.head(self.family) + lines


class ObjectMetric(NamedTuple):
    """A metric of each of many objects: lines from the name, the labels of the objects and the objects."""

    family: Family
    lines: Callable[[str, Sequence[Labels], list[Any]], str]


def family(name: str, help: str, kind: Kind | None = None) -> Family:
    """What a metric is called: a counter ends in _total, and others are gauges if nothing else is said."""
    return Family(name, kind or ("counter" if name.endswith("_total") else "gauge"), help)


def figure(name: str, help: str, of: str | Callable[[Any], Told], kind: Kind | None = None) -> BrokerMetric:
    """A row of a table; what is told is an attribute of the facts, or a part of one: `objects.queues`."""
    return BrokerMetric(family(name, help, kind), part_of(of) if isinstance(of, str) else of)


def part_of(path: str) -> Callable[[Any], Told]:
    """What stands at a path; nothing where the facts have nothing of the kind."""
    attribute, _, part = path.partition(".")

    def look(facts: Any) -> Any:
        found = getattr(facts, attribute)
        if found is None or not part:
            return found
        return found[part] if isinstance(found, Mapping) else getattr(found, part)

    return look


def column(name: str, help: str, of: Callable[[list[Any]], Sequence[Number | None]]) -> ObjectMetric:
    """A row of a table: one number of each object, or nothing to say of it."""

    def lines(name: str, labels: Sequence[Labels], objects: list[Any]) -> str:
        values = zip(labels, of(objects), strict=True)
        return "".join([f"{name}{label}}} {value}\n" for label, value in values if value is not None])

    return ObjectMetric(family(name, help), lines)
