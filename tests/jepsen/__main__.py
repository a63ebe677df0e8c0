"""`python -m tests.jepsen --faults 100 --seed 1`: tables and one line of JSON; 1 when a promise was broken.

With `--broken NAME` the nodes have a mistake, and 1 means that nobody noticed; see mistakes.py.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from tests.jepsen.checker import Findings, check
from tests.jepsen.crowd import PROMISES
from tests.jepsen.faults import NODE_FAULTS
from tests.jepsen.footing import Footing
from tests.jepsen.history import History
from tests.jepsen.large import Large
from tests.jepsen.mistakes import MISTAKES
from tests.jepsen.report import tell
from tests.jepsen.small import Small
from tests.jepsen.world import World

FOOTINGS: dict[str, Callable[[Path, str], AbstractContextManager[Footing]]] = {"small": Small, "large": Large}
NODES = "abc"
FAULTS = 12
PAUSE_S = 0.25
KEPT = Path("build/jepsen")  # what is left of runs that failed, and of the last one
LAST = "last"


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
        world.wait_for_consumers()
        for number, kind in enumerate(kinds, 1):
            start_s = history.now_s
            say(f"{start_s:7.1f} s  fault {number} of {len(kinds)}: {kind}")
            world.meet(kind)
        say(f"{history.now_s:7.1f} s  waiting for the rest")
        world.finish()
    return check(history.since(), PROMISES)


def options() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.jepsen", description="Let a real cluster meet faults.")
    parser.add_argument("--faults", type=int, help="how many (default 12, or as many as should show a mistake)")
    parser.add_argument("--seed", type=int, default=1, help="which ones when, and for how long (default 1)")
    parser.add_argument("--footing", choices=FOOTINGS, help="what the nodes stand on (default large; small if broken)")
    parser.add_argument("--kind", action="append", help="only these faults; again for several")
    parser.add_argument("--folder", type=Path, help=f"where logs and history stay (default: in {KEPT})")
    parser.add_argument("--broken", choices=MISTAKES, help="let the nodes have a mistake, which is to be noticed")
    given = parser.parse_args()
    mistake = MISTAKES.get(given.broken)
    given.footing = given.footing or ("small" if mistake else "large")
    given.kind = given.kind or (list(mistake.kinds) if mistake else None)
    given.faults = given.faults or (mistake.faults if mistake else FAULTS)
    return given


def say(text: str) -> None:
    """Tell how far it is."""
    print(text, file=sys.stderr, flush=True)


def attempt(given: argparse.Namespace, folder: Path) -> bool:
    """Run, and tell; whether it went wrong: a promise was broken, or a mistake was not noticed."""
    history = History(folder / "history.jsonl")
    try:
        with FOOTINGS[given.footing](folder, NODES) as footing:
            faults = {**NODE_FAULTS, **footing.faults}
            for kind, reason in footing.left_out.items():
                say(f"left out: {kind}: {reason}")
            kinds = chosen(given.kind or list(faults), given.faults, given.seed)
            world = World(folder, footing, faults, given.seed, history, PAUSE_S, given.broken)
            findings = run(world, kinds, say)
        tell(findings, footing.left_out, given.seed, world.complaints)
    finally:
        history.close()
    noticed = findings.wrong or bool(world.complaints)
    if given.broken:
        say(f"{given.broken}: {'caught' if noticed else 'NOT caught'}")
    return noticed is not bool(given.broken)


def main() -> int:
    """Run in a folder of which history and logs stay: what was slow may have to be understood later."""
    given = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was started is ended
    folder = Path(tempfile.mkdtemp(prefix="leveret-jepsen-"))
    wrong = True
    try:
        wrong = attempt(given, folder)
    finally:
        kept = given.folder or KEPT / (time.strftime("%Y%m%d-%H%M%S") if wrong else LAST)
        if kept == KEPT / LAST:
            shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True, exist_ok=True)
        for path in [*folder.glob("*.jsonl"), *folder.glob("*/*log")]:
            shutil.copy(path, kept / "-".join(path.relative_to(folder).parts))
        say(f"history and logs are in {kept}")
        shutil.rmtree(folder, ignore_errors=True)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
