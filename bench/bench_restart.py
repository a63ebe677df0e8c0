"""Restart with a million waiting messages: after a clean stop, and after kill -9."""

import os
import signal
import subprocess
import sys
import tempfile

import leveret
from bench.measure import report, timed

MESSAGES = 1_000_000
BATCH = 1_000
BODY = b"x" * 100


def fill(directory: str) -> None:
    """Fill a queue, say so, and wait to be killed."""
    broker = leveret.open(directory)
    queue = broker.queue("backlog")
    for _ in range(MESSAGES // BATCH):
        queue.send_many([BODY] * BATCH)
    print("filled", flush=True)
    signal.pause()


def fill_and_kill(directory: str) -> None:
    """Let another process fill a queue, and kill it."""
    command = [sys.executable, "-m", "bench.bench_restart", directory]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "filled\n"
        process.send_signal(signal.SIGKILL)


def reopen(directory: str) -> float:
    """Seconds until the queue can be used again; the broker is then closed properly."""
    with timed() as span:
        broker = leveret.open(directory)
    assert broker.queue("backlog").stats().ready == MESSAGES
    broker.close()
    return round(span.seconds, 3)


def main() -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as directory:
        fill_and_kill(directory)
        after_kill = reopen(directory)
        after_clean_stop = reopen(directory)
    report(
        "restart",
        messages=MESSAGES,
        after_kill_s=after_kill,
        goal_after_kill_s=3,
        after_clean_stop_s=after_clean_stop,
        goal_after_clean_stop_s=1,
    )


if __name__ == "__main__":
    if len(sys.argv) == 2:
        fill(sys.argv[1])
    else:
        main()
