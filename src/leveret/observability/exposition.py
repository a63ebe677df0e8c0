"""The text that Prometheus reads: families of samples, in its own format or in that of OpenMetrics.

    # HELP leveret_queue_messages_ready Messages that wait to be taken
    # TYPE leveret_queue_messages_ready gauge
    leveret_queue_messages_ready{vhost="/",queue="orders"} 3

It is written here and not by a library because a scrape may be of 100,000 queues: a line costs a fifth of a
microsecond as a formatted string, some microseconds as an object, and pieces of it can go out between other work.
"""

from typing import Literal, NamedTuple

from leveret.core.histogram import BOUNDS

Kind = Literal["counter", "gauge", "histogram"]
Labels = str
"""Labels as they are written, without the brace at the end: `{vhost="/",queue="orders"`; "" when there are none."""

TOTAL = "_total"
EDGES_S_OF_MS = tuple(repr(bound / 1_000) for bound in BOUNDS)
EDGES_S_OF_US = tuple(repr(bound / 1_000_000) for bound in BOUNDS)
EDGES_OF_COUNTS = tuple(repr(float(bound - 1)) for bound in BOUNDS)  # whole numbers: the largest one of each bucket


class Family(NamedTuple):
    """What samples of one name are; the name of a counter ends in _total."""

    name: str
    kind: Kind
    help: str


class Format(NamedTuple):
    """One of the two formats."""

    content_type: str
    open_metrics: bool

    def head(self, family: Family) -> str:
        """What stands before the samples of a family."""
        name = family.name
        if self.open_metrics and family.kind == "counter":
            name = name.removesuffix(TOTAL)
        return f"# HELP {name} {family.help}\n# TYPE {name} {family.kind}\n"

    @property
    def end(self) -> str:
        return "# EOF\n" if self.open_metrics else ""


TEXT = Format("text/plain; version=0.0.4; charset=utf-8", False)
OPEN_METRICS = Format("application/openmetrics-text; version=1.0.0; charset=utf-8", True)


def wanted(accept: str) -> Format:
    """The format that an Accept header asks for."""
    return OPEN_METRICS if "application/openmetrics-text" in accept.lower() else TEXT


def escaped(value: str) -> str:
    """The value of a label; bytes that are no UTF-8 are shown by their numbers."""
    if value.isprintable() and '"' not in value and "\\" not in value:
        return value
    shown = value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def labels(**named: str) -> Labels:
    """Labels of a sample."""
    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in named.items())


def sample(name: str, labels: Labels, value: float) -> str:
    """One line."""
    return f"{name}{labels}}} {value}\n" if labels else f"{name} {value}\n"


def histogram(name: str, labels: Labels, buckets: tuple[int, ...], total: float, edges: tuple[str, ...]) -> str:
    """The lines of a histogram: how many values there were up to each edge, their sum and their number."""
    before = f"{name}_bucket{labels}," if labels else f"{name}_bucket{{"
    count = 0
    lines = []
    for bucket, edge in zip(buckets, edges, strict=False):  # the last bucket has none
        count += bucket
        lines.append(f'{before}le="{edge}"}} {count}\n')
    count += buckets[-1]
    lines.append(f'{before}le="+Inf"}} {count}\n')
    return "".join(lines) + sample(f"{name}_sum", labels, total) + sample(f"{name}_count", labels, count)
