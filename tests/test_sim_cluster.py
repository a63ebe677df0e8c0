"""A cluster survives what happens to it in virtual time; `make sim-cluster` does the same with many more seeds."""

import json

import pytest

from tests.sim.cluster.__main__ import main
from tests.sim.cluster.history import History
from tests.sim.cluster.mutants import MUTANTS, seeds_until_caught
from tests.sim.cluster.world import FAULT_KINDS, World, explore

SEEDS = 60


def test_nothing_confirmed_is_lost_by_a_cluster_under_faults() -> None:
    outcome = explore(1, SEEDS)
    assert outcome.history.findings == []
    assert outcome.seeds == SEEDS
    assert set(FAULT_KINDS) <= set(outcome.counts)
    assert outcome.counts["stale_deliveries"] < outcome.counts["deliveries"]


@pytest.mark.parametrize("mutant", MUTANTS)
def test_every_mutant_is_caught(mutant: str) -> None:
    assert seeds_until_caught(mutant) is not None


def test_a_seed_is_always_the_same() -> None:
    assert World(7).run() == World(7).run()


def test_the_report_names_what_was_done(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.sim.cluster.__main__.MUTANTS", {"no-sequence": MUTANTS["no-sequence"]})
    assert main(["--seed", "3", "--seeds", "2"]) == 0
    report = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (report["seeds"], report["findings"], report["mutants_caught"]) == (2, 0, "1/1")


def test_a_finding_is_a_failure_that_can_be_shown_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.sim.cluster.__main__.MUTANTS", {})
    monkeypatch.setattr("tests.sim.cluster.world.Node", MUTANTS["no-sequence"].node_class)
    assert main(["--seed", "5", "--seeds", "10"]) == 1
    assert "make sim-cluster SEED=" in capsys.readouterr().out


def test_letters_are_judged_in_the_order_of_their_frames() -> None:
    """A process that was stopped tells of a letter after the next owner, which knows it, was brought it again."""
    history = History()
    for number, is_new, frame in ((12, False, 26), (13, True, 27), (12, True, 26)):
        history.brought("1/", number, is_new, frame)
    history.judge()
    assert history.findings == []


def test_letters_that_are_new_twice_or_overtaken_are_findings() -> None:
    history = History()
    for number, is_new, frame in ((13, True, 27), (12, True, 28), (13, True, 29)):
        history.brought("1/", number, is_new, frame)
    history.judge()
    assert [found.kind for found in history.findings] == ["disordered", "repeated"]
