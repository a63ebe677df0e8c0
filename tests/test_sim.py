"""The journal survives crashes, failing disks and rotten bits; `make sim` does the same with many more points."""

import errno
import json
from random import Random

import pytest

from tests.sim import workload
from tests.sim.__main__ import explored, flipped, main
from tests.sim.checker import Model
from tests.sim.explorer import Explorer
from tests.sim.mutants import MUTANTS, points_until_caught
from tests.sim.simdisk import SimDisk
from tests.sim.world import World

POINTS = 1_000
FLIPS = 300
CALLS = 60


def test_nothing_confirmed_is_lost_at_any_crash_point() -> None:
    explorer = explored(seed=1, points=POINTS)
    assert explorer.findings == []
    assert explorer.points == POINTS


def test_no_rotten_bit_goes_unnoticed() -> None:
    flips = flipped(seed=1, count=FLIPS)
    assert flips.findings == []
    assert flips.detected + flips.harmless.total() == flips.injected
    assert flips.detected > 0


@pytest.mark.parametrize("call", range(1, CALLS))
def test_a_disk_that_fails_once_costs_nothing_that_was_confirmed(call: int) -> None:
    explorer = Explorer(points_max=200)
    explorer.explore(seed=7, faults={call: errno.EIO})
    assert explorer.findings == []


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_caught(name: str) -> None:
    assert points_until_caught(name) is not None


def test_a_seed_crashes_in_the_same_way_again() -> None:
    assert outcome() == outcome()


def outcome() -> tuple[int, list[str]]:
    """What one failing seed of a mutant shows."""
    mutant = MUTANTS["nosync"]
    explorer = Explorer(500, mutant.disk_class, mutant.node_class)
    explorer.explore(seed=3)
    assert explorer.findings
    return explorer.points, [finding.what.splitlines()[-1] for _, finding in explorer.findings]


def test_a_closed_journal_leaves_no_file_open() -> None:
    world = World(SimDisk(), Model(), lambda world: None)
    world.open()
    workload.run(world, Random(1), steps=20)
    world.node.close()
    assert world.disk.open_files == {}
    assert not world.disk.locked


def test_the_report_is_one_line_of_json_and_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "5", "--points", "200"]) == 0
    line, *table = capsys.readouterr().out.splitlines()
    report = json.loads(line)
    assert report["points"] == 200
    assert report["mutants_caught"] == f"{len(MUTANTS)}/{len(MUTANTS)}"
    assert any("nosync" in row for row in table)
