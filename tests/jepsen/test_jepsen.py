"""A real cluster that meets faults gives the checker nothing to find."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.jepsen.__main__ import chosen, run
from tests.jepsen.checker import BROKEN
from tests.jepsen.fake_clock import FakeClock, compiled
from tests.jepsen.faults import NODE_FAULTS
from tests.jepsen.history import History
from tests.jepsen.mistakes import MISTAKES
from tests.jepsen.small import Small
from tests.jepsen.world import PATHS, World

KILL = "kill a node that waits"


def test_each_kind_of_fault_comes_as_often_as_the_others() -> None:
    kinds = chosen(["a", "b", "c"], 7, seed=1)
    assert [kinds[:3].count(each) for each in "abc"] == [1, 1, 1]
    assert [kinds[3:6].count(each) for each in "abc"] == [1, 1, 1]
    assert len(kinds) == 7


def test_a_clock_can_be_set_while_a_program_runs(tmp_path: Path) -> None:
    clock = FakeClock(tmp_path / "clock", compiled(tmp_path))
    program = "import sys, time\nfor line in sys.stdin: time.sleep(0); print(time.time(), time.monotonic(), flush=True)"
    command, environ = [sys.executable, "-c", program], {**os.environ, **clock.environ}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for ahead_s in (0, 600, -600, 0):
            clock.set(ahead_s)
            process.stdin.write("\n")
            process.stdin.flush()
            told_s, monotonic_s = map(float, process.stdout.readline().split())
            assert abs(told_s - time.time() - ahead_s) < 300
            assert abs(monotonic_s - time.monotonic()) < 300


def test_nothing_confirmed_is_lost_when_parts_of_a_cluster_fail(tmp_path: Path) -> None:
    with Small(tmp_path, "ab") as footing:
        world = World(tmp_path, footing, {**NODE_FAULTS, **footing.faults}, 1, History(), pause_s=0.05)
        findings = run(world, [KILL, "pause a node", "fail PostgreSQL over"], say=lambda text: None)
    assert not world.complaints
    assert {name: getattr(findings, name) for name in BROKEN} == {name: [] for name in BROKEN}
    assert all(tally.acknowledged for tally in findings.by_queue.values())
    assert sum(tally.faults for tally in findings.by_kind.values()) == 3


# That the checker finds what is lost is in test_checker.py, and that such nodes lose something in the simulator.
@pytest.mark.slow
def test_nodes_that_confirm_before_they_commit_are_found_out(tmp_path: Path) -> None:
    with Small(tmp_path, "ab") as footing:
        world = World(tmp_path, footing, footing.faults, 1, History(), pause_s=0.05, mistake="early-confirm")
        findings = run(world, [KILL], say=lambda text: None)
    assert findings.lost
    assert {kind for each in MISTAKES.values() for kind in each.kinds} <= {*NODE_FAULTS, *footing.faults}


def test_every_mistake_can_still_be_made() -> None:
    program = "from tests.jepsen.mistakes import MISTAKES\nfor each in MISTAKES.values(): each.make()"
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": PATHS})
