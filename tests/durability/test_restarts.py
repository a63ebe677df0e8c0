"""The program that kills a server amid dead letters, once; and that it notices what is missing."""

from pathlib import Path

from tests.durability.restarts import Case, SingleServer, Trial, cases


def test_nothing_that_was_confirmed_is_lost_by_a_kill(tmp_path: Path) -> None:
    target = SingleServer(tmp_path)
    trial = Trial(target, 1, (5, 10))
    trial.declare()
    trial.round()
    trial.finish()
    assert target.server.stop() == 0
    assert {case.title: case.lost for case in trial.cases} == {case.title: set() for case in cases()}
    assert all(len(case.confirmed) >= 5 for case in trial.cases)


def test_a_row_tells_what_is_missing_and_what_came_twice() -> None:
    case = Case(0, "some", confirmed={"a", "b", "c"})
    case.received.update(["a", "a", "b", "never confirmed"])
    assert case.cells() == ("some", "3", "3", "1", "1")
