"""Leveret's AMQP server beside RabbitMQ, and beside any other broker: rates, CPU, latency, memory.

Each is a process of its own on 127.0.0.1 with its default options. They take turns, round after round, because the
speed of a machine changes from minute to minute; a figure is the median of the rounds. CPU per message is that of all
processes of the broker, and the steadier figure.

QUICK=1 (or --quick) takes two minutes and is good for a look; the full run takes about twelve.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

from bench.amqp.brokers import SERVE, NotReady, Peer, Target, peers
from bench.amqp.cases import Case, Figures, idle_cases, medians, traffic_cases
from bench.amqp.load import PROGRAM, LoadFailed, run_load
from bench.measure import line, synced_writes

LINES = PROGRAM.parent / "bench_amqp.jsonl"
REFERENCE = "rabbitmq"
DISK_BYTES = 128 * 1024 * 1024
# Figures that are compared; each is the other broker's times this.
COMPARED = ("messages_per_s", "cpu_us_per_message", "p50_ms", "p99_ms", "seconds", "rss_bytes", "rss_bytes_each")


class Plan:
    """How long and how often."""

    def __init__(self, quick: bool) -> None:
        self.rounds = 1 if quick else 3
        self.idle_scale = 10 if quick else 1
        self.interval = {"warmup": 1, "duration": 2} if quick else {"warmup": 2, "duration": 5}


def measure(case: Case, target: Target, plan: Plan) -> Figures:
    """The figures of one round."""
    interval = {} if case.fresh else plan.interval
    return case.figures([run_load(target, {**step, **interval}) for step in case.steps])


def bare_disk(case: Case, directory: Path) -> Figures:
    """What the disk takes: the same bodies, as many in each synced write as a producer may have unconfirmed."""
    body_bytes, window = case.option("body", 0), case.option("window", 1_000)
    pieces = max(DISK_BYTES // (body_bytes * window), 3)
    span = synced_writes(directory / "bare", body_bytes * window, pieces)
    (directory / "bare").unlink()
    return {
        "messages_per_s": span.rate(pieces * window),
        "megabytes_per_s": round(pieces * window * body_bytes / span.seconds / 1e6, 1),
    }


def compared(figures: Figures, reference: Figures | None) -> Figures:
    """Each figure as a multiple of the reference's."""
    if reference is None:
        return {}
    return {
        name: round(figures[name] / reference[name], 3)
        for name in COMPARED
        if figures.get(name) is not None and reference.get(name)
    }


def say(case: Case, rounds: dict[str, list[Figures]], versions: dict[str, str], lines: TextIO) -> None:
    """Print the lines of a case, and keep them for the table."""
    figures = {name: medians(found) for name, found in rounds.items() if found}
    for name, own in figures.items():
        ratios = {} if name == REFERENCE else compared(own, figures.get(REFERENCE))
        text = line(
            "amqp",
            case=case.name,
            what=case.title,
            peer=name,
            version=versions.get(name, ""),
            rounds=len(rounds[name]),
            **own,
            **({f"of_{REFERENCE}": ratios} if ratios else {}),
        )
        print(text, flush=True)
        print(text, file=lines, flush=True)


class Bench:
    """One run of the benchmark: the brokers, what they said, and what went wrong."""

    def __init__(self, plan: Plan, brokers: list[Peer], directory: Path) -> None:
        self.plan, self.brokers, self.directory = plan, brokers, directory
        self.versions: dict[str, str] = {}
        self.failures = 0

    def start(self, peer: Peer, stack: ExitStack) -> Target:
        """Start a broker with an empty directory, until the stack is closed."""
        directory = stack.enter_context(tempfile.TemporaryDirectory(dir=self.directory, prefix=f"{peer.name}-"))
        target = stack.enter_context(peer.start(Path(directory)))
        self.versions[peer.name] = target.version
        return target

    def attempt(self, case: Case, peer: Peer, target: Target | None) -> list[Figures]:
        """One round; a failure is told, counted, and leaves the others running."""
        try:
            if target is not None:
                return [measure(case, target, self.plan)]
            with ExitStack() as stack:
                return [measure(case, self.start(peer, stack), self.plan)]
        except (LoadFailed, NotReady) as error:
            self.failures += 1
            print(f"{case.name} on {peer.name}: {error}", file=sys.stderr, flush=True)
            return []

    def run_traffic(self, cases: list[Case]) -> Iterator[tuple[Case, dict[str, list[Figures]]]]:
        """All brokers run at once and take turns."""
        with ExitStack() as stack:
            targets = {peer.name: self.start(peer, stack) for peer in self.brokers}
            for case in cases:
                found: dict[str, list[Figures]] = {peer.name: [] for peer in self.brokers}
                for _ in range(self.plan.rounds):
                    for peer in self.brokers:
                        found[peer.name] += self.attempt(case, peer, targets[peer.name])
                    if case.on_disk:
                        found.setdefault("disk", []).append(bare_disk(case, self.directory))
                yield case, found

    def run_idle(self, cases: list[Case]) -> Iterator[tuple[Case, dict[str, list[Figures]]]]:
        """A broker for each case, once: what it needs hardly changes from round to round."""
        for case in cases:
            yield case, {peer.name: self.attempt(case, peer, None) for peer in self.brokers}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.bench_amqp", description=__doc__)
    parser.add_argument("--quick", action="store_true", default=os.environ.get("QUICK", "") not in ("", "0"))
    parser.add_argument("--case", action="append", help="only this one; may be repeated")
    parser.add_argument("--serve", default=SERVE, help="command that starts Leveret, with {data} and {port}")
    parser.add_argument(
        "--peer", action="append", default=[], help="NAME=HOST:PORT[@PID]: another broker, running already"
    )
    parser.add_argument("--only", help="names of peers, with commas between them")
    return parser.parse_args()


def selected(cases: list[Case], names: list[str] | None) -> list[Case]:
    return [case for case in cases if names is None or case.name in names]


def main() -> None:
    options = arguments()
    plan = Plan(options.quick)
    found = peers(options.serve, options.peer)
    brokers = [peer for peer in found if options.only is None or peer.name in options.only.split(",")]
    if not PROGRAM.exists():
        sys.exit("the load generator is not built: `make build/amqpload`")
    traffic, idle = (selected(cases, options.case) for cases in (traffic_cases(), idle_cases(plan.idle_scale)))
    with (
        tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR"), prefix="bench-amqp-") as directory,
        LINES.open("w") as lines,
    ):
        bench = Bench(plan, brokers, Path(directory))
        for cases, run in ((traffic, bench.run_traffic), (idle, bench.run_idle)):
            for case, rounds in run(cases) if cases else ():
                say(case, rounds, bench.versions, lines)
    sys.exit(bench.failures > 0)


if __name__ == "__main__":
    try:
        main()
    except NotReady as error:
        sys.exit(str(error))
