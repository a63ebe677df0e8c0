"""Processes killed with SIGKILL while many threads use a broker; the next one is asked what it found."""

import random
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.durability.children import Child

ROUNDS = 5
LINES_MAX = 1_500


class Found(NamedTuple):
    """One message that a process found when it started."""

    queue: str
    id: str
    priority: int
    deliveries: int
    body: str


class Ledger:
    """What all processes so far confirmed, asked for and flushed."""

    def __init__(self) -> None:
        self.sent: dict[str, str] = {}
        self.asked: set[str] = set()
        self.acked: set[str] = set()

    def note(self, line: str) -> None:
        verb, *words = line.split()
        if verb == "sent":
            assert words[0] not in self.sent, "an id was given twice"
            self.sent[words[0]] = words[1]
        elif verb == "asks":
            self.asked.add(words[0])
        elif verb == "acked":
            self.acked.add(words[0])

    def check(self, found: list[Found]) -> None:
        ids = [each.id for each in found]
        assert len(ids) == len(set(ids)), "a message is there twice"
        assert not set(ids) & self.acked, "an acknowledged message came back"
        assert not self.sent.keys() - self.asked - set(ids), "a confirmed message is lost"
        assert all(self.sent.get(each.id, each.body) == each.body for each in found)
        self.check_order([each for each in found if each.queue == "orders"])

    def check_order(self, found: list[Found]) -> None:
        assert [each.priority for each in found] == sorted((each.priority for each in found), reverse=True)
        lanes: dict[int, list[str]] = defaultdict(list)
        for each in found:
            lanes[each.priority].append(each.id)
        assert all(ids == sorted(ids) for ids in lanes.values())


def found_by(child: Child) -> list[Found]:
    found = []
    while (line := child.line()) != "go":
        _, queue, number, priority, deliveries, body = line.split()
        found.append(Found(queue, number, int(priority), int(deliveries), body))
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_confirmed_is_lost_and_nothing_acknowledged_comes_back(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    ledger = Ledger()
    found: list[Found] = []
    queues: set[str] = set()
    for number in range(ROUNDS):
        with Child("tests.durability.busy_child", str(tmp_path), str(number)) as child:
            found = found_by(child)
            ledger.check(found)
            queues |= {each.queue for each in found}
            for _ in range(chance.randrange(1, LINES_MAX)):
                ledger.note(child.line())
            for line in child.kill():
                ledger.note(line)
    with Child("tests.durability.busy_child", str(tmp_path), "z") as child:
        found = found_by(child)
        ledger.check(found)
    assert len(ledger.acked) > ROUNDS
    assert queues | {each.queue for each in found} == {"orders", "dlq"}
    figures = f"{len(ledger.sent)} confirmed, {len(ledger.acked)} acknowledged, {len(found)} left"
    print(f"seed {seed}: {ROUNDS} kills, {figures}")
