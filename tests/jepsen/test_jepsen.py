"""The checker finds what is wrong with a history; a real cluster that meets faults gives it nothing to find."""

from pathlib import Path

from tests.jepsen.__main__ import run
from tests.jepsen.checker import check
from tests.jepsen.history import DELIVER, FAIL, FAULT, INVOKE, OK, PUBLISH, UNKNOWN, Operation


def history(*words: str) -> list[Operation]:
    """A history of one line of messages in one queue: "publish ok 3" and the like, a second each."""
    found = []
    for at_s, (what, outcome, message) in enumerate(word.split() for word in words):
        again = outcome == "again"
        found.append(Operation(at_s, "p", what, OK if again else outcome, "q", f"p.0 {message}", again))
    return found


def published(*numbers: int) -> list[str]:
    """Words of publishes that were confirmed."""
    return [f"{PUBLISH} {outcome} {number}" for number in numbers for outcome in (INVOKE, OK)]


def test_a_confirmed_message_that_never_comes_is_lost() -> None:
    findings = check(history(*published(1, 2), f"{DELIVER} ok 2"), ["q"])
    assert findings.lost == ["p.0 1 in q"]
    assert findings.acknowledged == 2
    assert findings.wrong


def test_what_was_not_confirmed_may_come_or_not() -> None:
    words = [f"{PUBLISH} {outcome} {number}" for number, outcome in ((1, INVOKE), (1, FAIL), (2, INVOKE), (2, UNKNOWN))]
    assert not check(history(*words), ["q"]).wrong
    assert not check(history(*words, f"{DELIVER} ok 1", f"{DELIVER} ok 2"), ["q"]).wrong


def test_a_message_that_comes_twice_is_counted() -> None:
    findings = check(history(*published(1), f"{DELIVER} ok 1", f"{DELIVER} again 1"), ["q"])
    assert (findings.delivered, findings.duplicated, findings.wrong) == (1, 1, False)


def test_a_message_that_comes_after_a_later_one_is_out_of_order_unless_it_comes_again() -> None:
    first_late = [*published(1, 2), f"{DELIVER} ok 2"]
    assert check(history(*first_late, f"{DELIVER} ok 1"), ["q"]).out_of_order == ["p.0 1 in q"]
    assert check(history(*first_late, f"{DELIVER} again 1"), ["q"]).out_of_order == []


def test_a_message_that_nobody_published_is_unexpected() -> None:
    assert check(history(f"{DELIVER} ok 1"), ["q"]).unexpected == ["p.0 1 in q"]


def test_the_longest_silence_after_a_fault_is_what_was_unavailable() -> None:
    made = history(*published(1, 2), f"{FAULT} {INVOKE} 0", f"{PUBLISH} {INVOKE} 3", f"{FAULT} ok 0", f"{PUBLISH} ok 3")
    assert check(made, ["q"]).unavailable_s == {"p": [3.0]}


def test_nothing_confirmed_is_lost_when_parts_of_a_cluster_fail(tmp_path: Path) -> None:
    findings, complaints = run(tmp_path, ["kill a node", "pause a node", "fail PostgreSQL over"], seed=1)
    assert not complaints
    assert (findings.lost, findings.out_of_order, findings.unexpected) == ([], [], [])
    assert findings.acknowledged > 0
    assert sum(map(len, findings.unavailable_s.values())) == 3
