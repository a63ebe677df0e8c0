"""Five producer and five consumer threads for three seconds, beside queue.Queue doing the same hand-off."""

import queue as standard
import threading
import time
from collections.abc import Callable

import leveret
from bench.measure import Span, report, timed

PRODUCERS = CONSUMERS = 5
SECONDS = 3.0
BODY = b"x" * 100
BATCH = 10


def hand_off(put: Callable[[], int], get: Callable[[], int]) -> tuple[int, int, Span]:
    """Run producers and consumers; `get` gives 0 when there is nothing left."""
    sent, got = [0] * PRODUCERS, [0] * CONSUMERS
    stop = time.monotonic() + SECONDS
    over = threading.Event()

    def produce(index: int) -> None:
        while time.monotonic() < stop:
            sent[index] += put()

    def consume(index: int) -> None:
        while True:
            taken = get()
            got[index] += taken
            if not taken and over.is_set():
                return

    producers = [threading.Thread(target=produce, args=(index,)) for index in range(PRODUCERS)]
    consumers = [threading.Thread(target=consume, args=(index,)) for index in range(CONSUMERS)]
    with timed() as span:
        for thread in [*consumers, *producers]:
            thread.start()
        for thread in producers:
            thread.join()
        over.set()
        for thread in consumers:
            thread.join()
    return sum(sent), sum(got), span


def through_leveret(batch: int) -> tuple[int, int, Span]:
    with leveret.open() as broker:
        queue = broker.queue("stress")
        bodies = [BODY] * batch

        def put() -> int:
            if batch == 1:
                queue.send(BODY)
            else:
                queue.send_many(bodies)
            return batch

        def get() -> int:
            messages = queue.receive(batch, wait=0.1)
            queue.ack_many(messages)
            return len(messages)

        return hand_off(put, get)


def through_standard_queue() -> tuple[int, int, Span]:
    plain: standard.Queue[bytes] = standard.Queue()

    def put() -> int:
        plain.put(BODY)
        return 1

    def get() -> int:
        try:
            plain.get(timeout=0.1)
        except standard.Empty:
            return 0
        return 1

    return hand_off(put, get)


def main() -> None:
    figures: dict[str, object] = {}
    for name, (sent, got, span) in (
        ("single", through_leveret(1)),
        (f"batches_of_{BATCH}", through_leveret(BATCH)),
        ("queue_Queue", through_standard_queue()),
    ):
        assert sent == got, f"{name}: {sent} sent, {got} received"
        figures[name] = {"messages": got, "messages_per_s": span.rate(got), "cpu_us_per_message": span.cpu_us(got)}
    report("threads", producers=PRODUCERS, consumers=CONSUMERS, **figures)


if __name__ == "__main__":
    main()
