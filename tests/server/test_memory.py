from pathlib import Path

import pytest

from leveret.server.memory import (
    PAGE_BYTES,
    TRIM_BYTES_MIN,
    Trim,
    available_bytes,
    free_bytes,
    give_back,
    limit_bytes,
    resident_bytes,
)
from leveret.wire import methods as m
from tests.process_figures import status
from tests.protocols.amqp.wire import Client, SocketLink
from tests.server_process import ServerProcess
from tests.waiting import wait_until

GIB = 2**30
CLIENTS = 400
BODY = bytes(100_000)  # a buffer for it stays below the size that is freed at once
KEPT_BYTES_MAX = 40 << 20  # of 400 clients: their buffers had 120 MiB


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    folder = tmp_path / "proc"
    (folder / "self").mkdir(parents=True)
    (folder / "meminfo").write_text(f"MemTotal:       {8 * GIB // 1024} kB\nMemFree: 1 kB\n")
    (folder / "self/statm").write_text("500 300 10 1 0 2 0\n")
    return folder


def limited(cgroups: Path, group: str, name: str, text: str) -> None:
    (cgroups / group).mkdir(parents=True, exist_ok=True)
    (cgroups / group / name).write_text(text + "\n")


def test_the_memory_of_the_process_is_counted_in_pages(proc: Path) -> None:
    assert resident_bytes(proc) == 300 * PAGE_BYTES


def test_without_control_groups_the_machine_is_the_limit(proc: Path, tmp_path: Path) -> None:
    (proc / "self/cgroup").write_text("")
    assert available_bytes(proc, tmp_path / "cgroup") == 8 * GIB


def test_the_tightest_group_of_version_2_counts(proc: Path, tmp_path: Path) -> None:
    (proc / "self/cgroup").write_text("0::/system.slice/leveret.service\n")
    limited(tmp_path, "system.slice", "memory.max", str(2 * GIB))
    limited(tmp_path, "system.slice/leveret.service", "memory.max", "max")
    assert available_bytes(proc, tmp_path) == 2 * GIB


def test_the_group_of_version_1_counts(proc: Path, tmp_path: Path) -> None:
    (proc / "self/cgroup").write_text("5:cpu:/a\n4:memory:/docker/x\n")
    limited(tmp_path, "memory/docker/x", "memory.limit_in_bytes", str(GIB))
    limited(tmp_path, "memory", "memory.limit_in_bytes", str(2**63 - 1))
    assert available_bytes(proc, tmp_path) == GIB


@pytest.mark.parametrize(("wanted", "expected"), [(0.6, 600), (1, 1_000), (250, 250), (0, 0)])
def test_a_limit_is_a_share_or_a_size(wanted: float, expected: int) -> None:
    assert limit_bytes(wanted, 1_000) == expected


def test_memory_that_is_free_goes_back_to_the_machine() -> None:
    give_back()
    many = [bytearray(4_000) for _ in range(20_000)]  # small ones: a large one would go back by itself
    full = resident_bytes()
    many.clear()
    give_back()
    assert resident_bytes() < full - 40_000_000


def test_free_memory_is_counted_when_blocks_are_freed() -> None:
    many = [bytearray(4_000) for _ in range(20_000)]
    before = free_bytes()
    del many[::2]  # what is left keeps the allocator from returning anything
    assert free_bytes() > before + 30_000_000


class Process:
    """A process that tells what it has, and whether it was trimmed."""

    def __init__(self, resident: int, free: int) -> None:
        self.resident = resident
        self.free = free
        self.trim = Trim(lambda: self.resident, lambda: self.free, self._return)

    def _return(self) -> None:
        """The allocator still counts as free what the machine has again."""
        self.resident -= self.free

    def change(self, resident: int = 0, free: int = 0) -> bool:
        """The process takes so much more of the machine, or so much more of it is free; gives whether a trim is due."""
        self.resident += resident * TRIM_BYTES_MIN
        self.free += free * TRIM_BYTES_MIN
        return self.trim.is_due


def test_a_trim_is_due_after_a_peak_and_not_again() -> None:
    process = Process(GIB, 0)
    assert not process.change(resident=5)  # all of it is used
    assert process.change(free=5)
    process.trim.run()
    assert process.resident == GIB
    assert not process.change()


def test_a_trim_is_due_after_the_next_peak_although_as_much_is_free() -> None:
    process = Process(GIB, 5 * TRIM_BYTES_MIN)
    assert not process.change()
    assert process.change(resident=5)


def test_a_trim_is_due_when_what_a_trim_found_in_use_is_free() -> None:
    process = Process(GIB, 2 * TRIM_BYTES_MIN)
    process.trim.run()
    assert not process.change(free=-2)
    assert process.change(free=2)


def test_idle_and_closed_connections_leave_no_memory_behind(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:

        def resident() -> int:
            return status(server.pid, "VmRSS:")

        def connect() -> Client:
            client = Client(SocketLink("127.0.0.1", server.port)).open()
            declared = client.call(1, m.QueueDeclare("", exclusive=True))
            assert isinstance(declared, m.QueueDeclareOk)
            client.publish(1, m.BasicPublish("", declared.queue), None, BODY)
            client.call(1, m.BasicConsume(declared.queue, no_ack=True))
            client.expect(1, m.BasicDeliver)
            assert client.content(1).body == BODY
            return client

        connect().link.close()
        allowed = resident() + KEPT_BYTES_MAX
        clients = [connect() for _ in range(CLIENTS)]
        wait_until(lambda: resident() < allowed, lambda: f"idle connections: {resident()} bytes, not {allowed}")
        for client in clients:
            client.link.close()
        wait_until(lambda: resident() < allowed, lambda: f"closed connections: {resident()} bytes, not {allowed}")
