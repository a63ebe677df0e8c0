"""A process to be killed: says what it found, then sends, takes and settles from many threads until the end.

has QUEUE ID PRIORITY DELIVERIES BODY       one message that was there at the start
go                                          that was all
sent ID BODY                                confirmed
asks ID                                     is about to acknowledge
acked ID                                    the acknowledgement was flushed
"""

import itertools
import sys
import threading
from typing import Any

import leveret
from leveret.runtime import runtime
from tests.durability.children import say

BATCH = 5
BACKLOG = 3_000


def report(broker: leveret.Broker) -> None:
    """Say what is there."""
    for queue in broker.queues():
        for state in ("ready", "scheduled", "backing-off", "leased"):
            for each in queue.browse(10_000, state=state):
                say("has", queue.name, each.id, each.priority, each.deliveries, each.body)
    say("go")


def send(orders: leveret.Queue, name: str) -> None:
    """Single messages of several priorities."""
    for number in itertools.count():
        body = f"{name}-{number}"
        say("sent", orders.send(body, priority=number % 3), body)
        if len(orders) > BACKLOG:
            return


def send_batches(orders: leveret.Queue, name: str) -> None:
    """Batches: all of one, or none."""
    for number in itertools.count():
        bodies = [f"{name}-{number * BATCH + each}" for each in range(BATCH)]
        for sent, body in zip(orders.send_many(bodies), bodies, strict=True):
            say("sent", sent, body)
        if len(orders) > BACKLOG:
            return


def settle(broker: leveret.Broker, queue: leveret.Queue) -> None:
    """Acknowledge one of three, give one back, make one a dead letter; of dead letters only the first two."""
    while True:
        for number, message in enumerate(queue.receive(3, wait=1)):
            if number == 0:
                say("asks", message.id)
                message.ack()
                broker.flush()
                say("acked", message.id)
            elif number == 1 or queue.name == "dlq":
                message.nack(delay=0)
            else:
                message.reject()


def main(path: str, name: str) -> None:
    """Work until somebody ends it."""
    runtime.HOUSEKEEP_MS = 20  # so that checkpoints and compaction are under way too
    options: dict[str, Any] = {"segment_bytes": 16_384, "checkpoint_bytes": 65_536, "cache_bytes": 8_192}
    broker = leveret.open(path, spare_bytes=0, disk_free_min_bytes=0, sync="always", **options)
    orders = broker.queue("orders", dead_letter="dlq", max_deliveries=5, max_priority=2)
    report(broker)
    jobs = [
        (send, orders, f"{name}a"),
        (send, orders, f"{name}b"),
        (send_batches, orders, f"{name}c"),
        (settle, broker, orders),
        (settle, broker, orders),
        (settle, broker, broker.queue("dlq")),
    ]
    for job, *arguments in jobs:
        threading.Thread(target=job, args=arguments, daemon=True).start()  # type: ignore[arg-type]
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
