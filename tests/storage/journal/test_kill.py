"""A real process, killed while it writes: what it said to be confirmed is there."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.storage.journal.world import World

CHILD = """
import sys, threading
from pathlib import Path
from tests.storage.journal.world import World

world = World(Path(sys.argv[1]), threaded=True, segment_bytes=4096, cache_bytes=1)
said = threading.Lock()

def send():
    while True:
        with world.store.lock:
            seq = world.publish(b"message %d" % world.state.seq)
            frame = world.journal.pending
            world.commit.kick()
        world.commit.wait(frame)
        with said:
            print(seq, flush=True)

for _ in range(4):
    threading.Thread(target=send, daemon=True).start()
while True:
    world.store.housekeep()
"""


@pytest.mark.parametrize("confirmed_count", [1, 50, 300])
def test_what_a_killed_process_confirmed_is_there(tmp_path: Path, confirmed_count: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    ) as process:
        assert process.stdout is not None
        confirmed = [int(process.stdout.readline()) for _ in range(confirmed_count)]
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read()
    confirmed += [int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    world = World(tmp_path, cache_bytes=1)
    bodies = world.bodies()[1]
    assert set(confirmed) <= set(bodies)
    assert all(body == b"message %d" % (seq - 1) for seq, body in bodies.items())
    world.close()
