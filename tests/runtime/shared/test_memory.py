"""What one process remembers."""

import leveret
from leveret.runtime.shared.answers import ExpiringMemory


def test_there_is_room_for_so_many_and_so_much() -> None:
    memory = ExpiringMemory(leveret.ManualClock(), entries_max=3, bytes_max=100)
    for key in "abcd":
        memory.put(key, b"x", 1)
    assert [len(memory), *(memory.claim(key, b"", 1) for key in "bcd")] == [3, b"x", b"x", b"x"]
    memory.put("e", bytes(99), 1)
    assert [len(memory), memory.claim("d", b"", 1), memory.claim("e", b"", 1)] == [2, b"x", bytes(99)]
    memory.put("e", b"x", 1)
    memory.drop("d", b"another")
    assert len(memory) == 2
    memory.drop("d", b"x")
    memory.put("f", bytes(99), 1)
    assert [len(memory), memory.claim("e", b"", 1), memory.claim("f", b"", 1)] == [2, b"x", bytes(99)]


def test_what_is_claimed_is_not_claimed_by_another_until_its_time_has_passed() -> None:
    clock = leveret.ManualClock()
    memory = ExpiringMemory(clock, entries_max=3, bytes_max=100)
    assert memory.claim("a", b"one", 1000) is None
    assert memory.claim("a", b"two", 1000) == b"one"
    clock.advance(1)
    assert memory.claim("a", b"two", 1000) is None
    assert memory.claim("a", b"one", 1000) == b"two"


def test_what_is_larger_than_the_memory_is_not_remembered() -> None:
    memory = ExpiringMemory(leveret.ManualClock(), entries_max=3, bytes_max=100)
    memory.put("a", bytes(101), 1)
    assert len(memory) == 0
