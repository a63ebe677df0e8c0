"""A server in a process of its own, on free ports, for as long as a block lasts."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE_S = 100
# Small ones: the archive takes those that are full.
SEGMENT_BYTES = "1048576"
FREE_PORTS = ("--amqp-port", "0", "--http-port", "0", "--https-port", "0", "--sqs-port", "0")
READY = re.compile(r"\bready\b.*\bamqp\W+[\d.]+:(\d+)")


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Start a server whose data is in a folder, give its URL, and stop it at the end."""
    log = folder / "server.log"
    command = [sys.executable, "-m", "leveret", "serve", "--data", str(folder / "data"), *FREE_PORTS]
    command += ["--segment-bytes", SEGMENT_BYTES, "--archive-dir", str(folder / "handed")]
    # In a session of its own: an interrupt from the keyboard ends the traffic first, and then, by us, the server.
    with log.open("wb") as file, subprocess.Popen(command, stderr=file, start_new_session=True) as server:
        try:
            yield f"amqp://guest:guest@127.0.0.1:{_port(server, log)}/%2F"
        finally:
            server.terminate()
            server.wait(PATIENCE_S)


def _port(server: subprocess.Popen[bytes], log: Path) -> int:
    """Wait until the server says on which port it listens."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and server.poll() is None:
        if found := READY.search(log.read_text()):
            return int(found[1])
        time.sleep(0.05)
    raise SystemExit(f"the server did not start:\n{log.read_text()}")
