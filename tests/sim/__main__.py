"""`python -m tests.sim --seed 1 --points 20000`: crash, recover, check; then let bits rot, and try the mutants.

Half of the points crash the journal with a plain state, half of them the real broker.

Prints one line of JSON and a short table. Exits with 1 when anything is wrong, and says which seed shows it again.
"""

import argparse
import itertools
import json
import sys
import time
from collections import Counter

from tests.sim.checker import Finding
from tests.sim.explorer import Explorer
from tests.sim.flips import Flips
from tests.sim.kinds import BROKER, JOURNAL, Kind
from tests.sim.mutants import MUTANTS, points_until_caught

KINDS = ("lost", "resurrected", "corrupt", "reordered", "duplicated", "backwards", "refused", "silent")
POINTS_PER_FLIP = 10
FINDINGS_SHOWN = 3


def main(arguments: list[str] | None = None) -> int:
    """Run everything; 0 when nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description="Crash journal and broker at every point.")
    parser.add_argument("--seed", type=int, default=1, help="the first workload (default 1)")
    parser.add_argument("--points", type=int, default=20_000, help="how many crashes (default 20000)")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    journal = explored(options.seed, options.points // 2)
    broker = explored(options.seed, options.points - journal.points, BROKER)
    points = journal.points + broker.points
    seconds = time.monotonic() - started
    flips = flipped(options.seed, options.points // POINTS_PER_FLIP)
    mutants = {name: points_until_caught(name, options.seed) for name in MUTANTS}
    caught = sum(points is not None for points in mutants.values())
    findings = journal.findings + broker.findings + flips.findings
    kinds = Counter(finding.kind for _, finding in findings)
    report = {
        "seed": options.seed,
        "points": points,
        "journal_workloads": journal.workloads,
        "journal_points": journal.points,
        "broker_workloads": broker.workloads,
        "broker_points": broker.points,
        "points_per_second": round(points / seconds),
        "disk_failures": journal.disk_failures + broker.disk_failures,
        **{kind: kinds[kind] for kind in KINDS},
        "flips_injected": flips.injected,
        "flips_detected": flips.detected,
        "flips_refused_at_start": flips.refused,
        "mutants_caught": f"{caught}/{len(mutants)}",
        "seconds": round(time.monotonic() - started, 1),
    }
    print(json.dumps(report))
    show(report, mutants, findings)
    return 1 if findings or caught < len(mutants) else 0


def explored(seed: int, points: int, kind: Kind = JOURNAL) -> Explorer:
    """As many workloads as have so many crash points; stops at the first one that fails."""
    explorer = Explorer(points, kind)
    for each in itertools.count(seed):
        if explorer.points >= points or explorer.findings:
            break
        explorer.explore(each)
    return explorer


def flipped(seed: int, count: int) -> Flips:
    """So many flipped bits, a few in each workload's journal."""
    flips = Flips()
    for each in itertools.count(seed):
        if flips.injected >= count:
            break
        flips.inject(each)
    return flips


def show(report: dict[str, object], mutants: dict[str, int | None], findings: list[tuple[int, Finding]]) -> None:
    """The same for people: what was counted, when each mutant was caught, and the first findings."""
    for name, value in report.items():
        print(f"  {name.replace('_', ' '):18} {value}")
    for name, points in mutants.items():
        print(f"  mutant {name:18} {'NOT CAUGHT' if points is None else f'caught after {points} points'}")
    for seed, finding in findings[:FINDINGS_SHOWN]:
        print(f"\n{finding.kind}: {finding.what}\n  again: make sim SEED={seed}")


if __name__ == "__main__":
    sys.exit(main())
