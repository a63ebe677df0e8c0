"""A process with workers, to be asked to stop or to be killed."""

import os
import signal
import sys
import threading

import leveret
from leveret.embedded.worker import DRAIN
from tests.durability.children import say


def until_told_to_stop() -> None:
    """Be at work until the signal has been handled: then the handlers are those from before."""
    while getattr(signal.getsignal(signal.SIGTERM), "__self__", None) is DRAIN:
        os.sched_yield()


def two_workers(path: str) -> None:
    """Start a worker for each of two queues; both are at work when the signal comes, and both finish."""
    with leveret.open(path, spare_bytes=0, disk_free_min_bytes=0) as broker:
        workers: list[leveret.Worker] = []
        for name in ("one", "two"):
            queue = broker.queue(name)

            def work(message: leveret.Message, name: str = name) -> None:
                say("begins", name, message.body)
                until_told_to_stop()
                if name == "two":
                    workers[0].join()  # the other one has ended by now, and this one is still at work
                say("ends", name, message.body)

            workers.append(queue.worker(concurrency=1)(work))
            queue.send_many(["first", "second"])
        for worker in workers:
            worker.join()
    say("closed")


def unattended(path: str) -> None:
    """Start a worker and do something else: the signal acts when the work at hand is done."""
    orders = leveret.open(path, spare_bytes=0, disk_free_min_bytes=0).queue("orders")

    @orders.worker(concurrency=1)
    def work(message: leveret.Message) -> None:
        say("begins", message.body)
        until_told_to_stop()
        say("ends", message.body)

    orders.send_many(["first", "second"])
    idle()


def stubborn(path: str) -> None:
    """Start a worker that never ends."""
    orders = leveret.open(path, spare_bytes=0, disk_free_min_bytes=0).queue("orders")

    @orders.worker(concurrency=1)
    def work(message: leveret.Message) -> None:
        say("begins", message.body)
        threading.Event().wait()

    orders.send_many(["first", "second"])
    idle()


def idle() -> None:
    """Do nothing, in slices: Python handles a signal that came just before a wait only after it."""
    while not threading.Event().wait(0.1):
        continue


def remembering(path: str) -> None:
    """Note each message in a file, as an effect that should not happen twice."""
    orders = leveret.open(path, spare_bytes=0, disk_free_min_bytes=0).queue("orders")
    effects = os.open(os.path.join(path, "effects.txt"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    @orders.worker(concurrency=1, idempotent=True)
    def work(message: leveret.Message) -> None:
        os.write(effects, f"{message.body}\n".encode())
        say("handled", message.body)

    work.join()


MODES = {"two": two_workers, "unattended": unattended, "stubborn": stubborn, "remembering": remembering}

if __name__ == "__main__":
    MODES[sys.argv[1]](sys.argv[2])
