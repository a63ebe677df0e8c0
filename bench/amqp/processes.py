"""Processes of a broker under test: free ports for them, starting, the tree below one, ending."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

STOP_S_MAX = 10

Process = subprocess.Popen[bytes]


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def started(command: list[str], log: Path, environment: Mapping[str, str] = os.environ) -> Iterator[Process]:
    """Run a command while the block runs; its output goes to the log."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(environment),
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def tree(root: int) -> list[int]:
    """A process and all that it started, directly or not."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            children.setdefault(parent_of(entry), []).append(int(entry.name))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, []))
    return found


def parent_of(entry: Path) -> int:
    """The parent's id by /proc; 0 if the process is gone."""
    try:
        # The name of a command may contain anything, so the fields are counted from its closing bracket.
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
