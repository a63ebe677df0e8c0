import pytest

from leveret.server.memory import Alarms, Gauges

GIB = 2**30


class World:
    """A process and a disk whose sizes are set by hand."""

    def __init__(self) -> None:
        self.resident_bytes = 0
        self.free_bytes = 10 * GIB
        self.full = False
        self.problem: OSError | None = None
        self.told: list[str | None] = []
        gauges = Gauges(lambda: self.resident_bytes, self._free_bytes, lambda: self.full)
        self.alarms = Alarms(gauges, GIB, GIB, self.told.append)

    def _free_bytes(self) -> int:
        if self.problem is not None:
            raise self.problem
        return self.free_bytes


@pytest.fixture
def world() -> World:
    return World()


def test_nobody_hears_of_what_is_as_it_should_be(world: World) -> None:
    world.alarms.check()
    assert world.told == []


def test_publishers_are_blocked_while_memory_is_short(world: World) -> None:
    world.resident_bytes = GIB + 1
    world.alarms.check()
    world.alarms.check()
    world.resident_bytes = GIB
    world.alarms.check()
    assert world.told == ["low on memory", None]


def test_publishers_are_blocked_while_the_disk_is_short(world: World) -> None:
    world.free_bytes = GIB - 1
    world.alarms.check()
    assert world.told == ["low on disk"]


def test_publishers_are_blocked_while_the_journal_refuses(world: World) -> None:
    world.full = True
    world.alarms.check()
    assert world.told == ["low on disk"]


def test_both_are_named(world: World) -> None:
    world.resident_bytes, world.free_bytes = 2 * GIB, 0
    world.alarms.check()
    assert world.told == ["low on memory & disk"]


def test_a_disk_that_cannot_be_looked_at_is_taken_to_be_as_it_was(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.free_bytes = 0
    world.alarms.check()
    world.problem = OSError(5, "Input/output error")
    world.alarms.check()
    world.alarms.check()
    assert world.told == ["low on disk"]
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == [
        "memory or disk cannot be looked at"
    ]
    world.problem, world.free_bytes = None, 10 * GIB
    world.alarms.check()
    assert world.told == ["low on disk", None]
