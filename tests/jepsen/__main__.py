"""`python -m tests.jepsen --faults 100 --seed 1`: a table and one line of JSON; 1 when a promise was broken."""

import argparse
import json
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tests.jepsen.checker import Findings, check
from tests.jepsen.faults import NODE_FAULTS
from tests.jepsen.footing import Footing
from tests.jepsen.history import History
from tests.jepsen.large import Large
from tests.jepsen.small import Small
from tests.jepsen.world import QUEUES, STANDARD_QUEUES, World

FOOTINGS: dict[str, Callable[[Path, str], AbstractContextManager[Footing]]] = {"small": Small, "large": Large}
NODES = "abc"
PAUSE_S = 0.25
SHOWN_MAX = 5
KEPT = Path("build/jepsen")  # what is left of a run that failed


def chosen(faults: list[str], count: int, seed: int) -> list[str]:
    """That many faults, of each kind as many as of the others, in an order of the seed's."""
    chance = random.Random(seed)
    found: list[str] = []
    while len(found) < count:
        found += chance.sample(faults, len(faults))
    return found[:count]


def run(world: World, kinds: list[str], say: Callable[[str], None]) -> Findings:
    """Meet faults one after the other; give what the history says."""
    history = world.history
    with world:
        say(f"{history.now_s:7.1f} s  {len(world.names)} nodes run")
        world.wait_for_confirms("the start")
        for number, kind in enumerate(kinds, 1):
            start_s = history.now_s
            say(f"{start_s:7.1f} s  fault {number} of {len(kinds)}: {kind}")
            world.meet(kind)
        say(f"{history.now_s:7.1f} s  waiting for the rest")
        world.finish()
    return check(history.since(), QUEUES, STANDARD_QUEUES)


def table(findings: Findings, left_out: dict[str, str]) -> str:
    """What happened at each kind of fault."""
    titles = ("faults", "acknowledged", "lost", "duplicated", "out of order", "unavailable p50 s", "max s")
    rows = ["  ".join([f"{'fault':32}", *titles])]
    for kind, tally in findings.by_kind.items():
        gaps = tally.unavailable_s or [0.0]
        cells = [tally.faults, tally.acknowledged, tally.lost, tally.duplicated, tally.out_of_order]
        texts = [*map(str, cells), f"{statistics.median(gaps):.2f}", f"{max(gaps):.2f}"]
        rows.append(
            "  ".join([f"{kind:32}", *(f"{text:>{len(title)}}" for text, title in zip(texts, titles, strict=True))])
        )
    rows += [f"{kind:32}  LEFT OUT: {reason}" for kind, reason in left_out.items()]
    return "\n".join(rows)


def summary(findings: Findings, seed: int, complaints: list[str]) -> dict[str, Any]:
    """The line of JSON."""
    kinds = findings.by_kind
    return {
        "seed": seed,
        "faults": sum(tally.faults for tally in kinds.values()),
        "invoked": findings.invoked,
        "acknowledged": findings.acknowledged,
        "delivered": findings.delivered,
        "lost": len(findings.lost),
        "duplicated": findings.duplicated,
        "returned": findings.returned,
        "out_of_order": len(findings.out_of_order),
        "unexpected": len(findings.unexpected),
        "complaints": len(complaints),
        "unavailable_s_max": {name: max(tally.unavailable_s) for name, tally in kinds.items() if tally.unavailable_s},
    }


def options() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.jepsen", description="Let a real cluster meet faults.")
    parser.add_argument("--faults", type=int, default=12, help="how many (default 12)")
    parser.add_argument("--seed", type=int, default=1, help="which ones when, and for how long (default 1)")
    parser.add_argument("--footing", choices=FOOTINGS, default="large", help="what the nodes stand on (default large)")
    parser.add_argument("--kind", action="append", help="only these faults; again for several")
    parser.add_argument("--folder", type=Path, help=f"where logs and history stay (default: {KEPT} after a failure)")
    return parser.parse_args()


def say(text: str) -> None:
    """Tell how far it is."""
    print(text, file=sys.stderr, flush=True)


def tell(findings: Findings, left_out: dict[str, str], seed: int, complaints: list[str]) -> bool:
    """Print what was found; whether a promise was broken."""
    print(table(findings, left_out))
    for name in ("lost", "out_of_order", "unexpected"):
        for message in getattr(findings, name)[:SHOWN_MAX]:
            print(f"{name}: {message}")
    for complaint in complaints[:SHOWN_MAX]:
        print(complaint)
    print(json.dumps(summary(findings, seed, complaints)), flush=True)
    return findings.wrong or bool(complaints)


def attempt(given: argparse.Namespace, folder: Path) -> bool:
    """Run, and tell; whether a promise was broken."""
    history = History(folder / "history.jsonl")
    try:
        with FOOTINGS[given.footing](folder, NODES) as footing:
            faults = {**NODE_FAULTS, **footing.faults}
            for kind, reason in footing.left_out.items():
                say(f"left out: {kind}: {reason}")
            kinds = chosen(given.kind or list(faults), given.faults, given.seed)
            world = World(folder, footing, faults, given.seed, history, PAUSE_S)
            findings = run(world, kinds, say)
        return tell(findings, footing.left_out, given.seed, world.complaints)
    finally:
        history.close()


def main() -> int:
    """Run in a folder that stays only if it is asked for, or something was wrong."""
    given = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended
    folder = Path(tempfile.mkdtemp(prefix="leveret-jepsen-"))
    wrong = True
    try:
        wrong = attempt(given, folder)
    finally:
        kept = given.folder or (KEPT / time.strftime("%Y%m%d-%H%M%S") if wrong else None)
        if kept is not None:
            kept.mkdir(parents=True, exist_ok=True)
            for path in [*folder.glob("*.jsonl"), *folder.glob("*/*log")]:
                shutil.copy(path, kept / "-".join(path.relative_to(folder).parts))
            say(f"history and logs are in {kept}")
        shutil.rmtree(folder, ignore_errors=True)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
