"""Send, receive, kill -9, restart: nothing that was confirmed is lost.

    python examples/crash.py

A child process sends orders, takes some of them, and writes down every confirmed send. It is killed in the middle.
The parent opens the same directory and looks whether everything is there that must be.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time

import leveret

SECONDS_BEFORE_THE_KILL = 3.0


def work(directory: str) -> None:
    """Send and take orders until killed; say which sends were confirmed and which acknowledgements were durable."""
    broker = leveret.open(directory)
    orders = broker.queue("orders", visibility_timeout=30)
    number = 0
    while True:
        batch = list(range(number, number + 50))
        orders.send_many([{"order": each} for each in batch])
        # send_many has returned: these orders are on the disk.
        print("sent", *batch, flush=True)
        number += 50
        taken = orders.receive(10)
        numbers = [message.body["order"] for message in taken]
        print("acknowledging", *numbers, flush=True)
        orders.ack_many(taken)
        broker.flush()
        # flush has returned: these acknowledgements are on the disk.
        print("acknowledged", *numbers, flush=True)


def crash(directory: str) -> dict[str, set[int]]:
    """Run a worker, kill it, and give the orders that it had sent, begun to acknowledge, and acknowledged."""
    with subprocess.Popen([sys.executable, __file__, directory], stdout=subprocess.PIPE, text=True) as worker:
        time.sleep(SECONDS_BEFORE_THE_KILL)
        os.kill(worker.pid, signal.SIGKILL)
        assert worker.stdout is not None
        lines = worker.stdout.read().split("\n")
    said: dict[str, set[int]] = {"sent": set(), "acknowledging": set(), "acknowledged": set()}
    for line in lines[:-1]:
        word, *numbers = line.split()
        said[word].update(map(int, numbers))
    return said


def main() -> None:
    """Crash a worker and count what is left."""
    with tempfile.TemporaryDirectory() as directory:
        said = crash(directory)
        sent, acknowledged = said["sent"], said["acknowledged"]
        print(f"killed -9 after {len(sent):,} confirmed sends and {len(acknowledged):,} durable acknowledgements")
        started = time.perf_counter()
        with leveret.open(directory) as broker:
            print(f"opened again in {time.perf_counter() - started:.2f} s")
            orders = broker.queue("orders")
            left: list[int] = []
            while messages := orders.receive(1000):
                left += [message.body["order"] for message in messages]
                orders.ack_many(messages)
    lost = sent - said["acknowledging"] - set(left)
    again = acknowledged & set(left)
    print(f"{len(left):,} orders were waiting, in order: {left == sorted(left)}")
    print(f"confirmed and lost: {len(lost)}; acknowledged and delivered again: {len(again)}")
    sys.exit(1 if lost or again else 0)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        work(sys.argv[1])
    else:
        main()
