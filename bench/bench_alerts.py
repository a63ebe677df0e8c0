"""A look of alerting at a hundred thousand queues: its time and CPU, how long the loop stands still, and memory."""

import asyncio
import time
from itertools import pairwise

import leveret
from bench.measure import Span, report, rss_bytes, timed
from leveret.observability.alerting.engine import AlertEngine
from leveret.observability.alerting.rules import DEFAULTS
from leveret.observability.alerting.watch import QueueWatch

QUEUES = 100_000
LOOKS = 3
EVERY_S = 15
FILLED = {"none": 0, "a tenth": QUEUES // 10, "all": QUEUES}


class NoReaders:
    """There are no streams."""

    def groups(self) -> list[object]:
        return []

    def lag(self, group: object) -> tuple[str, str, int] | None:
        return None


async def looked_at(watch: QueueWatch) -> tuple[Span, float]:
    """One look, and the longest time in which nobody else had a turn."""
    turns = []

    async def take_turns() -> None:
        while True:
            turns.append(time.perf_counter())
            await asyncio.sleep(0)

    task = asyncio.create_task(take_turns())
    await asyncio.sleep(0)
    with timed() as span:
        await watch.look(list(DEFAULTS.values()))
    turns.append(time.perf_counter())
    task.cancel()
    return span, max(after - before for before, after in pairwise(turns))


def main() -> None:
    with leveret.open() as broker:
        queues = broker.declare_queues([f"queue-{number:06d}" for number in range(QUEUES)])
        watch = QueueWatch(broker.runtime, lambda: (broker.runtime,), AlertEngine(), lambda runtime: NoReaders())
        filled = 0
        for name, count in FILLED.items():
            for queue in queues[filled:count]:
                queue.send(b"")
                queue.receive()[0].ack()
                queue.send(b"")
            filled = count
            before = rss_bytes()
            looks = [asyncio.run(looked_at(watch)) for _ in range(LOOKS)]
            span, stall_s = min(looks, key=lambda look: look[0].cpu_seconds)
            report(
                "alerts",
                queues=QUEUES,
                with_messages=name,
                look_s=round(span.seconds, 3),
                cpu_s=round(span.cpu_seconds, 3),
                cpu_share=round(span.cpu_seconds / EVERY_S, 4),
                longest_turn_ms=round(stall_s * 1_000, 1),
                rss_grown_bytes=rss_bytes() - before,
            )


if __name__ == "__main__":
    main()
