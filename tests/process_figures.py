"""What the kernel knows about a process: memory, CPU, threads, open files."""

import os
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def status(pid: int, name: str) -> int:
    """A figure of /proc/PID/status; memory (`VmRSS:`, `VmHWM:`) is given in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    words = next(each.split() for each in lines if each.startswith(name))
    return int(words[1]) * (1024 if words[-1] == "kB" else 1)


def cpu_s(pid: int) -> float:
    """CPU time that the process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def open_files(pid: int) -> int:
    """Descriptors that are open, sockets included."""
    return len(os.listdir(f"/proc/{pid}/fd"))
