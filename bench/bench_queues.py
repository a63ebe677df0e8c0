"""A hundred thousand durable queues: time to create, time to come back, memory of an idle one."""

import os
import tempfile

import leveret
from bench.measure import report, rss_bytes, timed

QUEUES = 100_000


def main() -> None:
    names = [f"queue-{number:06d}" for number in range(QUEUES)]
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as directory:
        with leveret.open(directory) as broker:
            broker.queue("first").send(b"so that everything is loaded")
            before = rss_bytes()
            with timed() as span:
                broker.declare_queues(names)
            grown = rss_bytes() - before
        with timed() as reopened:
            broker = leveret.open(directory)
        found = len(broker.queues())
        broker.close()
    assert found == QUEUES + 1
    report(
        "queues",
        queues=QUEUES,
        created_s=round(span.seconds, 2),
        goal_created_s=10,
        rss_bytes_per_queue=round(grown / QUEUES),
        goal_rss_bytes_per_queue=1024,
        reopened_s=round(reopened.seconds, 2),
    )


if __name__ == "__main__":
    main()
