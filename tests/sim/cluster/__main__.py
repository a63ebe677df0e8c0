"""`python -m tests.sim.cluster --seed 1 --seeds 1000`: a cluster in virtual time under faults, seed after seed.

Prints one line of JSON and a short table. Exits with 1 when anything is wrong, and says which seed shows it again.
"""

import argparse
import json
import sys
import time

from tests.sim.cluster.mutants import MUTANTS, seeds_until_caught
from tests.sim.cluster.world import explore

FINDINGS_SHOWN = 3


def main(arguments: list[str] | None = None) -> int:
    """Run everything; 0 when nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.cluster", description="Clusters under faults.")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--seeds", type=int, default=1_000, help="how many (default 1000)")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    outcome = explore(options.seed, options.seeds)
    seconds = time.monotonic() - started
    mutants = {name: seeds_until_caught(name) for name in MUTANTS}
    caught = sum(seeds is not None for seeds in mutants.values())
    findings = outcome.history.findings
    report = {
        "seed": options.seed,
        "seeds": outcome.seeds,
        "seeds_per_second": round(outcome.seeds / seconds, 1),
        "simulated_hours": round(outcome.simulated_ms / 3_600_000, 2),
        **{name.replace(" ", "_"): count for name, count in sorted(outcome.counts.items())},
        "findings": len(findings),
        "mutants_caught": f"{caught}/{len(mutants)}",
    }
    print(json.dumps(report))
    for name, value in report.items():
        print(f"  {name.replace('_', ' '):18} {value}")
    for name, seeds in mutants.items():
        print(f"  mutant {name:18} {'NOT CAUGHT' if seeds is None else f'caught after {seeds} seeds'}")
    for finding in findings[:FINDINGS_SHOWN]:
        print(f"\n{finding.kind}: {finding.what}\n  again: make sim-cluster SEED={outcome.failed} SEEDS=1")
    return 1 if findings or caught < len(mutants) else 0


if __name__ == "__main__":
    sys.exit(main())
