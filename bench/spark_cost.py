"""What a job of Spark costs: time on the wall, and CPU of the driver, Java, its workers and the servers beside them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.amqp.processes import tree
from bench.measure import Span, timed

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@contextmanager
def costed() -> Iterator[Span]:
    """Measure the block; CPU is that of this process and of all that it has started."""
    before = tree_cpu_s()
    with timed() as span:
        yield span
    span.cpu_seconds = tree_cpu_s() - before


def tree_cpu_s() -> float:
    """The CPU time of all processes from this one down, also of those that have ended."""
    total = 0
    for pid in tree(os.getpid()):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(map(int, fields[11:15]))  # its own in user and system mode, and that of children which ended
    return total / TICKS_PER_S


def cheapest(spans: list[Span], rows: int) -> dict[str, float]:
    """The rate of the best run, and the least CPU for a row."""
    return {"per_s": max(span.rate(rows) for span in spans), "cpu_us": min(span.cpu_us(rows) for span in spans)}
