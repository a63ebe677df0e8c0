"""How much memory the process has, and may have."""

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
PROC = Path("/proc")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MAPPED_BYTES_MIN = 8 << 20
KEPT_BYTES_MAX = 64 << 20  # that are free at the end of the heap: the next commit batches need them again
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)


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
    """The content of a file that may not be there."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def give_back() -> None:
    """Return memory that is free to the machine: what the process has is measured, not what it uses."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of the GNU library only
    if trim is not None:
        trim(0)


def map_large_blocks() -> None:
    """Let each large block be a mapping of its own, which the machine gets back as soon as it is freed.

    The GNU library raises its threshold up to 32 MiB with the blocks that are freed. Bodies lie in the heap then, with
    holes between them: requests of 256 MiB took 440 MiB of memory.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)  # of the GNU library only
    if set_option is not None:
        set_option(M_MMAP_THRESHOLD, MAPPED_BYTES_MIN)
        set_option(M_TRIM_THRESHOLD, KEPT_BYTES_MAX)
