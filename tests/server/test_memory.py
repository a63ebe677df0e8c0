from pathlib import Path

import pytest

from leveret.server.memory import PAGE_BYTES, available_bytes, give_back, limit_bytes, resident_bytes

GIB = 2**30


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
