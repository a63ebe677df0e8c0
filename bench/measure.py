"""What every benchmark shares: the JSON line, CPU time, memory, the machine."""

import json
import os
import platform
import resource
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Span:
    """How long something took: on the wall, and of this process's CPU."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def rate(self, count: int) -> int:
        """Things per second."""
        return round(count / self.seconds)

    def cpu_us(self, count: int) -> float:
        """Microseconds of CPU for each thing."""
        return round(self.cpu_seconds * 1e6 / count, 3)


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


@contextmanager
def timed() -> Iterator[Span]:
    """Measure the block; the span is filled in at its end."""
    span = Span()
    wall, cpu = time.perf_counter(), _cpu_seconds()
    try:
        yield span
    finally:
        span.seconds = time.perf_counter() - wall
        span.cpu_seconds = _cpu_seconds() - cpu


def cpu_seconds(pids: Iterable[int]) -> float:
    """What some processes have used of the CPU until now."""
    return sum(sum(_stat(pid)[:2]) for pid in pids) / os.sysconf("SC_CLK_TCK")


def cpu_seconds_of_ended(parent: int) -> float:
    """What the children of a process used that have ended."""
    return sum(_stat(parent)[2:]) / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[int]:
    """User and system time of a process, and both of its children that have ended, in ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [int(field) for field in fields[11:15]]


def progress(text: str) -> None:
    """Tell a person who waits what is being measured."""
    print(text, file=sys.stderr, flush=True)


def rss_bytes() -> int:
    """Resident memory of this process now."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def synced_writes(path: Path, piece_bytes: int, pieces: int) -> Span:
    """The time of a bare loop that appends so many pieces to a file and syncs each: what the disk takes."""
    piece = os.urandom(piece_bytes)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with timed() as span:
        for _ in range(pieces):
            os.write(fd, piece)
            os.fdatasync(fd)
    os.close(fd)
    return span


def line(name: str, **figures: object) -> str:
    """The line of a benchmark."""
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    return json.dumps({"bench": name, **figures, "machine": machine})


def report(name: str, **figures: object) -> None:
    """Print the line of a benchmark."""
    print(line(name, **figures), flush=True)
