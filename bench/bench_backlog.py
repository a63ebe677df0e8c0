"""Ten million waiting messages of 100 bytes: memory for each, time to send, to restart, to begin to drain."""

import os
import tempfile

import leveret
from bench.measure import report, rss_bytes, timed

MESSAGES = int(os.environ.get("BENCH_MESSAGES", "10000000"))
BATCH = 1_000
BODY = b"x" * 100
DRAINED = 100_000


def main() -> None:
    bodies = [BODY] * BATCH
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as directory:
        with leveret.open(directory) as broker:
            queue = broker.queue("backlog")
            before = rss_bytes()
            with timed() as span:
                for _ in range(MESSAGES // BATCH):
                    queue.send_many(bodies)
            rss = rss_bytes()
        with timed() as reopened:
            broker = leveret.open(directory)
        queue = broker.queue("backlog")
        assert queue.stats().ready == MESSAGES
        with timed() as drained:
            for _ in range(DRAINED // BATCH):
                queue.ack_many(queue.receive(BATCH))
        broker.close()
    report(
        "backlog",
        messages=MESSAGES,
        body_bytes=len(BODY),
        rss_bytes_per_message=round(rss / MESSAGES, 1),
        rss_growth_bytes_per_message=round((rss - before) / MESSAGES, 1),
        goal_rss_bytes_per_message=40,
        messages_per_s=span.rate(MESSAGES),
        cpu_us_per_message=span.cpu_us(MESSAGES),
        clean_restart_s=round(reopened.seconds, 2),
        drained_messages_per_s=drained.rate(DRAINED),
    )


if __name__ == "__main__":
    main()
