"""Journal and broker survive crashes, failing disks and rotten bits; `make sim` does the same with many more points."""

import errno
import json
from random import Random

import pytest

from leveret.core import browse
from leveret.core.restore import Restorer
from tests.sim import broker_workload, workload
from tests.sim.__main__ import explored, flipped, main
from tests.sim.broker_node import BrokerNode
from tests.sim.checker import Model
from tests.sim.explorer import Explorer
from tests.sim.kinds import BROKER, JOURNAL, Kind, no_definitions
from tests.sim.mutants import MUTANTS, points_until_caught
from tests.sim.node import Node
from tests.sim.simdisk import SimDisk
from tests.sim.world import BrokerWorld, JournalWorld

POINTS = 1_000
FLIPS = 300
CALLS = 60
STATES = ("scheduled", "backing-off", "leased")


@pytest.mark.parametrize("kind", [JOURNAL, BROKER], ids=["journal", "broker"])
def test_nothing_confirmed_is_lost_at_any_crash_point(kind: Kind) -> None:
    explorer = explored(seed=1, points=POINTS, kind=kind)
    assert explorer.findings == []
    assert explorer.points == POINTS


def test_no_rotten_bit_goes_unnoticed() -> None:
    flips = flipped(seed=1, count=FLIPS)
    assert flips.findings == []
    assert flips.detected == flips.injected
    assert 0 < flips.refused < flips.injected


@pytest.mark.parametrize("call", range(1, CALLS))
def test_a_disk_that_fails_once_costs_nothing_that_was_confirmed(call: int) -> None:
    explorer = Explorer(points_max=200)
    explorer.explore(seed=7, faults={call: errno.EIO})
    assert explorer.findings == []


@pytest.mark.parametrize("call", range(1, CALLS, 4))
def test_a_disk_that_fails_once_costs_the_broker_nothing_that_was_confirmed(call: int) -> None:
    explorer = Explorer(points_max=100, kind=BROKER)
    explorer.explore(seed=7, faults={call: errno.EIO})
    assert explorer.findings == []


class Undead(Restorer):
    """Forgets in a replay that a queue was purged."""

    def replay_purge(self, queue: int, before: int, keep: list[int]) -> None:
        pass


class Rootless(Restorer):
    """Lets definitions go with the segment that they are in."""

    def relocate(self, segment: int, budget_bytes: int) -> bool:
        setattr(self.definitions, "relocate", lambda segment: None)  # noqa: B010
        return super().relocate(segment, budget_bytes)


class Sleepless(Restorer):
    """Forgets that a queue was paused."""

    def replay_definition(self, what: int, payload: bytes, segment: int) -> None:
        super().replay_definition(what, payload.replace(b'"paused":true', b'"paused":false'), segment)


class Countless(Restorer):
    """Counts messages from the start after a checkpoint."""

    def restore(self, snapshot: memoryview) -> None:
        version, numbers = snapshot[:4], snapshot[12:]
        super().restore(memoryview(bytes(version) + bytes(8) + bytes(numbers)))

    def restore_numbers(self, last_seq: int, now_ms: int) -> None:
        pass


@pytest.mark.parametrize("restorer", [Undead, Rootless, Sleepless, Countless])
def test_a_broker_that_forgets_something_is_caught(restorer: type[Restorer]) -> None:
    node_class = type("Forgetful", (BrokerNode,), {"restorer_class": restorer})
    explorer = explored(seed=1, points=5_000, kind=BROKER._replace(node_class=node_class))
    assert explorer.findings


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_caught(name: str) -> None:
    assert points_until_caught(name) is not None


def test_a_seed_crashes_in_the_same_way_again() -> None:
    assert outcome() == outcome()


def outcome() -> tuple[int, list[str]]:
    """What one failing seed of a mutant shows."""
    mutant = MUTANTS["nosync"]
    explorer = Explorer(500, JOURNAL._replace(node_class=mutant.node_class), mutant.disk_class)
    explorer.explore(seed=3)
    assert explorer.findings
    return explorer.points, [finding.what.splitlines()[-1] for _, finding in explorer.findings]


def test_a_closed_journal_leaves_no_file_open() -> None:
    world = JournalWorld(SimDisk(), Model(), lambda world: None, Node)
    world.open()
    workload.run(world, Random(1), steps=20)
    world.node.close()
    assert world.disk.open_files == {}
    assert not world.disk.locked


def test_the_broker_workload_reaches_every_state_of_a_message() -> None:
    states: set[str] = set()
    for seed in range(10):
        rng = Random(seed)
        world = BrokerWorld(SimDisk(), no_definitions(rng), lambda world: None, BrokerNode)
        world.open()
        broker_workload.run(world, rng, steps=20)
        queues = world.node.broker.queues.values()
        states |= {state for queue in queues for state in STATES if browse.holdings(queue, state)}
    assert states == set(STATES)


def test_the_report_is_one_line_of_json_and_a_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.sim.__main__.MUTANTS", {"nosync": MUTANTS["nosync"]})
    assert main(["--seed", "5", "--points", "200"]) == 0
    line, *table = capsys.readouterr().out.splitlines()
    report = json.loads(line)
    assert (report["journal_points"], report["broker_points"]) == (100, 100)
    assert report["mutants_caught"] == "1/1"
    assert any("nosync" in row for row in table)
