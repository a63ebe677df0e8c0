"""Processes killed with SIGKILL while threads append to a stream; the next one is asked what it found."""

import random
from collections import defaultdict
from pathlib import Path

from tests.durability.children import Child

ROUNDS = 4
LINES_MAX = 600


class Ledger:
    """What all processes so far confirmed."""

    def __init__(self) -> None:
        self.sent: dict[tuple[int, int], str] = {}
        self.both: set[str] = set()

    def note(self, line: str) -> None:
        verb, *words = line.split()
        if verb == "sent":
            self.sent[int(words[0]), int(words[1])] = words[2]
        elif verb == "both":
            self.both.add(words[0])

    def check(self, found: dict[tuple[int, int], str]) -> None:
        missing = {place: body for place, body in self.sent.items() if found.get(place) != body}
        assert not missing, f"confirmed records are lost, or elsewhere: {missing}"
        assert not self.both - set(found.values()), "a confirmed message is not in the stream"
        offsets: dict[int, list[int]] = defaultdict(list)
        numbers: dict[str, list[int]] = defaultdict(list)
        for (partition, offset), body in found.items():
            offsets[partition].append(offset)
            sender, _, number = body.partition("-")
            numbers[sender].append(int(number))
        assert all(each == list(range(len(each))) for each in offsets.values()), "offsets are not dense"
        assert all(each == list(range(len(each))) for each in numbers.values()), "a sender's records are out of order"


def found_by(child: Child) -> dict[tuple[int, int], str]:
    found = {}
    while (line := child.line()) != "go":
        _, partition, offset, body = line.split()
        found[int(partition), int(offset)] = body
    return found


def test_no_confirmed_record_is_lost_and_order_holds(tmp_path: Path) -> None:
    chance = random.Random(5)
    ledger = Ledger()
    for life in range(ROUNDS):
        with Child("tests.durability.stream_child", str(tmp_path), str(life)) as child:
            ledger.check(found_by(child))
            for _ in range(chance.randrange(1, LINES_MAX)):
                ledger.note(child.line())
            for line in child.kill():
                ledger.note(line)
    with Child("tests.durability.stream_child", str(tmp_path), "z") as child:
        ledger.check(found_by(child))
    assert ledger.sent
    assert ledger.both
    print(f"{ROUNDS} kills, {len(ledger.sent) + len(ledger.both)} confirmed, none lost")
