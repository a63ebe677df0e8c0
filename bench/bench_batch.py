"""One thread, memory broker: send_many 100, receive 100, ack_many, again and again."""

import leveret
from bench.measure import report, timed

BATCH = 100
ROUNDS = 20_000
BODY = b"x" * 100


def main() -> None:
    bodies = [BODY] * BATCH
    with leveret.open() as broker:
        queue = broker.queue("batch")
        with timed() as span:
            for _ in range(ROUNDS):
                queue.send_many(bodies)
                queue.ack_many(queue.receive(BATCH))
        assert queue.stats().acked == BATCH * ROUNDS
    count = BATCH * ROUNDS
    report(
        "batch", messages=count, messages_per_s=span.rate(count), cpu_us_per_message=span.cpu_us(count), goal=1_000_000
    )


if __name__ == "__main__":
    main()
