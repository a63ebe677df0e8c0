"""How much memory the process has, and may have; alarms: while memory or disk is short, publishers are blocked."""

import asyncio
import ctypes
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from leveret.observability.logs import Log

CGROUPS = Path("/sys/fs/cgroup")
PROC = Path("/proc")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MAPPED_BYTES_MIN = 8 << 20
KEPT_BYTES_MAX = 64 << 20  # that are free at the end of the heap: the next commit batches need them again
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)
TRIM_EVERY_S = 5.0
TRIM_BYTES_MIN = 32 << 20  # less is not worth the time during which the allocator is locked
LOG = Log("alarms")


def resident_bytes(proc: Path = PROC) -> int:
    """The memory of this process."""
    return int((proc / "self/statm").read_text().split()[1]) * PAGE_BYTES


def available_bytes(proc: Path = PROC, cgroups: Path = CGROUPS) -> int:
    """What the process may have: the memory of the machine, or less if a control group says so."""
    total = int((proc / "meminfo").read_text().split()[1]) * 1024
    return min([total, *_limits(proc, cgroups)])


def limit_bytes(wanted: float, available: int) -> int:
    """The limit that an option means: a share of what there is, or a number of bytes."""
    return int(wanted * available if wanted <= 1 else wanted)


def _limits(proc: Path, cgroups: Path) -> Iterator[int]:
    """The limits of the control groups that the process is in, of version 2 or 1."""
    for line in (proc / "self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        root, name = (cgroups, "memory.max") if not controllers else (cgroups / "memory", "memory.limit_in_bytes")
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            text = _text(folder / name)
            if text.isdecimal():
                yield int(text)
            if folder == root:
                break


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def give_back() -> None:
    """Return memory that is free to the machine: what the process has is measured, not what it uses."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of the GNU library only
    if trim is not None:
        trim(0)


class AllocatorFigures(ctypes.Structure):
    """What mallinfo2(3) gives."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )
    fordblks: int


def free_bytes() -> int:
    """What was freed and the allocator keeps; part of it may be the machine's again since the last trim."""
    figures = getattr(ctypes.CDLL(None), "mallinfo2", None)  # of the GNU library since 2.33
    if figures is None:
        return 0
    figures.restype = AllocatorFigures
    return int(figures().fordblks)


class Trim:
    """Decides when free memory is returned to the machine.

    Connections, bodies and answers of a peak lie in the heap between blocks that are still used, so the allocator
    returns nothing by itself: a server that 1,000 clients had left kept 300 MiB. A trim is due when enough is free, and
    enough of that is resident: more has become free since the last trim, or the process has grown since.
    """

    def __init__(
        self,
        resident: Callable[[], int] = resident_bytes,
        free: Callable[[], int] = free_bytes,
        trim: Callable[[], None] = give_back,
    ) -> None:
        self._resident = resident
        self._free = free
        self._trim = trim
        self._look()

    def _look(self) -> None:
        self._resident_bytes, self._free_bytes = self._resident(), self._free()

    @property
    def is_due(self) -> bool:
        """Whether a trim is worth its time; asked every `TRIM_EVERY_S`."""
        resident, free = self._resident(), self._free()
        self._resident_bytes = min(self._resident_bytes, resident)
        self._free_bytes = min(self._free_bytes, free)
        grown = max(resident - self._resident_bytes, free - self._free_bytes)
        return min(free, grown) >= TRIM_BYTES_MIN

    def run(self) -> None:
        """Return what is free, and measure again; in a thread, for it takes about 0.1 s for 300 MiB."""
        self._trim()
        self._look()


async def return_free_memory() -> None:
    """Trim when it is due, for as long as the server runs."""
    trim = Trim()
    while True:
        await asyncio.sleep(TRIM_EVERY_S)
        if trim.is_due:
            await asyncio.to_thread(trim.run)


def map_large_blocks() -> None:
    """Let each large block be a mapping of its own, which the machine gets back as soon as it is freed.

    The GNU library raises its threshold up to 32 MiB with the blocks that are freed. Bodies lie in the heap then, with
    holes between them: requests of 256 MiB took 440 MiB of memory.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)  # of the GNU library only
    if set_option is not None:
        set_option(M_MMAP_THRESHOLD, MAPPED_BYTES_MIN)
        set_option(M_TRIM_THRESHOLD, KEPT_BYTES_MAX)


@dataclass(frozen=True, slots=True)
class Gauges:
    """What is looked at; tests have their own."""

    resident_bytes: Callable[[], int]
    free_bytes: Callable[[], int]
    journal_full: Callable[[], bool]


def gauges(data: str, journal_full: Callable[[], bool]) -> Gauges:
    """Those of this process and of the disk with a directory."""
    return Gauges(resident_bytes, lambda: shutil.disk_usage(data).free, journal_full)


class Alarms:
    """Looks at the gauges, and says why publishers have to wait."""

    def __init__(
        self, gauges: Gauges, memory_bytes_max: int, free_bytes_min: int, tell: Callable[[str | None], None]
    ) -> None:
        """Nothing is short yet; `tell` hears of every change."""
        self._gauges = gauges
        self._memory_bytes_max = memory_bytes_max
        self._free_bytes_min = free_bytes_min
        self._tell = tell
        self._blind = False
        self.reason: str | None = None

    def check(self) -> None:
        """Look at everything once; called every second. What cannot be seen is taken to be as it was."""
        try:
            reason = self._short()
        except OSError as error:
            if not self._blind:
                LOG.error("memory or disk cannot be looked at", reason=error, advice="alarms stay as they are")
            self._blind = True
            return
        self._blind = False
        if reason == self.reason:
            return
        self.reason = reason
        if reason is None:
            LOG.info("alarm ended")
        else:
            LOG.warning("alarm", reason=reason, advice="publishers are blocked: add room, or consume what waits")
        self._tell(reason)

    def _short(self) -> str | None:
        """What there is too little of, in the words that RabbitMQ has for it."""
        short = []
        if self._gauges.resident_bytes() > self._memory_bytes_max:
            give_back()
            if self._gauges.resident_bytes() > self._memory_bytes_max:
                short.append("memory")
        if self._gauges.journal_full() or self._gauges.free_bytes() < self._free_bytes_min:
            short.append("disk")
        return f"low on {' & '.join(short)}" if short else None
