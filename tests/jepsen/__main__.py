"""`python -m tests.jepsen --faults 100 --seed 1`: a table and one line of JSON; 1 when a promise was broken."""

import argparse
import json
import statistics
import sys
import tempfile
from itertools import cycle, islice
from pathlib import Path

from tests.jepsen.checker import Findings, check
from tests.jepsen.history import History
from tests.jepsen.world import FAULTS, QUEUES, World

LEFT_OUT = {
    "cuts between nodes": "need network namespaces and nft",
    "clock jumps": "need libfaketime",
}
SHOWN_MAX = 5


def run(folder: Path, kinds: list[str], seed: int) -> tuple[Findings, list[str]]:
    """Meet faults one after the other; give what the history says, and what else was noticed."""
    history = History(folder / "history.jsonl")
    try:
        with World(folder, seed, history) as world:
            world.wait_for_confirms("the start")
            for number, kind in enumerate(kinds):
                print(f"{history.now_s:7.1f} s  fault {number + 1}: {kind}", file=sys.stderr, flush=True)
                world.meet(kind)
            world.finish()
        return check(history.since(), QUEUES), world.complaints
    finally:
        history.close()


def table(findings: Findings) -> str:
    """Unavailable seconds for each kind of fault."""
    rows = [f"{'fault':20} {'times':>5} {'unavailable p50 s':>18} {'max s':>7}"]
    for kind, seconds in findings.unavailable_s.items():
        rows.append(f"{kind:20} {len(seconds):5} {statistics.median(seconds):18.2f} {max(seconds):7.2f}")
    rows += [f"{kind:20}     left out: {reason}" for kind, reason in LEFT_OUT.items()]
    return "\n".join(rows)


def summary(findings: Findings, seed: int, complaints: list[str]) -> dict[str, object]:
    """The line of JSON."""
    return {
        "seed": seed,
        "faults": sum(map(len, findings.unavailable_s.values())),
        "invoked": findings.invoked,
        "acknowledged": findings.acknowledged,
        "delivered": findings.delivered,
        "lost": len(findings.lost),
        "duplicated": findings.duplicated,
        "out_of_order": len(findings.out_of_order),
        "unexpected": len(findings.unexpected),
        "complaints": len(complaints),
        "unavailable_s_max": {kind: max(seconds) for kind, seconds in findings.unavailable_s.items()},
    }


def main() -> int:
    """Run, and tell."""
    parser = argparse.ArgumentParser(prog="python -m tests.jepsen", description="Let a real cluster meet faults.")
    parser.add_argument("--faults", type=int, default=12, help="how many (default 12)")
    parser.add_argument("--seed", type=int, default=1, help="which nodes, and for how long (default 1)")
    parser.add_argument("--kind", choices=FAULTS, action="append", help="only these faults")
    parser.add_argument("--folder", type=Path, help="where logs and history stay (default: nowhere)")
    options = parser.parse_args()
    kinds = list(islice(cycle(options.kind or FAULTS), options.faults))
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        findings, complaints = run(folder, kinds, options.seed)
    print(table(findings))
    for name in ("lost", "out_of_order", "unexpected"):
        for message in getattr(findings, name)[:SHOWN_MAX]:
            print(f"{name}: {message}")
    for complaint in complaints[:SHOWN_MAX]:
        print(complaint)
    print(json.dumps(summary(findings, options.seed, complaints)))
    return 1 if findings.wrong or complaints else 0


if __name__ == "__main__":
    sys.exit(main())
