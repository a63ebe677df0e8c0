"""What history costs: transient messages of 16 B over AMQP with `history_events=all`, beside `durable`.

Both servers run at once and take turns, round after round; CPU per message is the steadier figure. Of each pair of
rounds the ratio counts, and of these the median.
"""

import os
import tempfile
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from statistics import median

from bench.amqp.brokers import SERVE, Target, start_leveret
from bench.amqp.load import Options, run_load
from bench.measure import line

CASES: dict[str, Options] = {
    "confirms and acks": {},
    "no confirms, no acks": {"no-confirms": True, "no-acks": True},
    "expiring queue": {"argument": "x-message-ttl=600000"},
    "10 queues": {"queues": 10, "producers": 2, "consumers": 10},
    "fan-out to 5": {"exchange": "bench", "exchange-type": "fanout", "queues": 5, "consumers": 5},
    "priorities": {"priority-max": 9},
    "4 producers, 4 consumers": {"producers": 4, "consumers": 4},
    "prefetch 10": {"prefetch": 10, "window": 10},
}
EVENTS = ("durable", "all")


def main() -> None:
    """Print a line for each case."""
    quick = os.environ.get("QUICK")
    rounds, seconds = (3, 2) if quick else (7, 5)
    with ExitStack() as stack:
        targets = {name: stack.enter_context(started(name, stack)) for name in EVENTS}
        for case, options in CASES.items():
            step: Options = {"queue": "bench", "delete-after": True, "body": 16, "transient": True, "window": 1_000}
            step |= {"warmup": 1, "duration": seconds, **options}
            found = [{name: run_load(targets[name], step) for name in EVENTS} for _ in range(rounds)]
            cpu = {name: [each[name]["broker_cpu_us"] for each in found] for name in EVENTS}
            ratios = [after / before for before, after in zip(cpu["durable"], cpu["all"], strict=True)]
            figures = {f"cpu_us_{name}": round(median(cpu[name]), 3) for name in EVENTS}
            print(line("history", case=case, rounds=rounds, **figures, ratio=round(median(ratios), 3)), flush=True)


def started(events: str, stack: ExitStack) -> AbstractContextManager[Target]:
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"history-{events}-")))
    return start_leveret(f"env LEVERET_HISTORY_EVENTS={events} {SERVE} --http-port off --sqs-port off", directory)


if __name__ == "__main__":
    main()
