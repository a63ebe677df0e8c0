"""The checker finds what is wrong with a history; a real cluster that meets faults gives it nothing to find."""

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.jepsen.__main__ import chosen, run
from tests.jepsen.checker import BEFORE, check
from tests.jepsen.fake_clock import FakeClock, compiled
from tests.jepsen.faults import NODE_FAULTS
from tests.jepsen.history import DELIVER, FAIL, FAULT, INVOKE, OK, PUBLISH, SETTLE, UNKNOWN, History, Operation
from tests.jepsen.small import Small
from tests.jepsen.world import World


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


def test_the_order_of_some_queues_is_not_looked_at() -> None:
    words = [*published(1, 2), f"{DELIVER} ok 2", f"{DELIVER} ok 1"]
    assert not check(history(*words), ["q"], unordered=["q"]).wrong


def test_a_delivery_after_a_settlement_is_counted() -> None:
    words = [*published(1), f"{DELIVER} ok 1", f"{SETTLE} ok 1", f"{DELIVER} again 1"]
    assert check(history(*words), ["q"]).returned == 1


def test_the_longest_silence_after_a_fault_is_what_was_unavailable() -> None:
    made = history(*published(1, 2), f"{FAULT} {INVOKE} 0", f"{PUBLISH} {INVOKE} 3", f"{FAULT} ok 0", f"{PUBLISH} ok 3")
    assert check(made, ["q"]).by_kind["p"].unavailable_s == [3.0]


def test_what_happens_after_a_fault_is_told_of_its_kind() -> None:
    words = [*published(1, 2), f"{FAULT} {INVOKE} 0", *published(3, 4), f"{DELIVER} ok 1", f"{DELIVER} again 1"]
    found = check(history(*words), ["q"]).by_kind
    before, after = found[BEFORE], found["p"]
    assert (before.faults, before.acknowledged, before.lost, before.duplicated) == (0, 2, 1, 0)
    assert (after.faults, after.acknowledged, after.lost, after.duplicated) == (1, 2, 2, 1)


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
        findings = run(world, ["kill a node", "pause a node", "fail PostgreSQL over"], say=lambda text: None)
    assert not world.complaints
    assert (findings.lost, findings.out_of_order, findings.unexpected) == ([], [], [])
    assert findings.acknowledged > 0
    assert sum(tally.faults for tally in findings.by_kind.values()) == 3
