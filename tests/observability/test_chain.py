"""The chain of the audit log: what was changed is noticed, what a crash has cut is not taken for a change."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import leveret
from leveret.observability.audit import FILES, Audit
from leveret.observability.chain import NO_LINE, ChainHead, Finding, examine
from leveret.observability.row_file import paths

ROWS = 10


@pytest.fixture
def clock() -> leveret.ManualClock:
    return leveret.ManualClock()


def note(directory: Path, clock: leveret.ManualClock, count: int = ROWS, bytes_max: int = 1 << 20) -> None:
    """Write some rows, as a process that starts and ends does."""
    audit = Audit(clock, str(directory), bytes_max=bytes_max)
    for number in range(count):
        clock.advance(1)
        audit.note("guest", f"PUT /api/vhosts/{number}")
    audit.close()


def found_in(directory: Path, known: ChainHead | None = None) -> Finding:
    return examine("audit", *paths(str(directory), "audit"), known)


def lines_of(directory: Path, name: str = "audit.jsonl") -> list[bytes]:
    return (directory / name).read_bytes().splitlines()


def rewrite(directory: Path, lines: list[bytes], name: str = "audit.jsonl") -> None:
    (directory / name).write_bytes(b"".join(line + b"\n" for line in lines))


def test_a_chain_is_whole(clock: leveret.ManualClock, tmp_path: Path) -> None:
    first_ms = clock.now_ms() + 1_000
    note(tmp_path, clock)
    found = found_in(tmp_path)
    assert (found.rows, found.seq_first, found.since_ms, found.head.seq) == (ROWS, 1, first_ms, ROWS)
    assert (found.broken, found.torn, found.unchained) == (None, 0, 0)
    assert json.loads(lines_of(tmp_path)[0])["prev"] == NO_LINE


def test_the_chain_goes_on_after_a_restart(clock: leveret.ManualClock, tmp_path: Path) -> None:
    note(tmp_path, clock)
    note(tmp_path, clock)
    found = found_in(tmp_path)
    assert (found.rows, found.head.seq, found.broken) == (2 * ROWS, 2 * ROWS, None)


def test_the_chain_goes_on_in_the_next_file(clock: leveret.ManualClock, tmp_path: Path) -> None:
    note(tmp_path, clock, 200, bytes_max=4_096)
    assert (tmp_path / "audit.1.jsonl").exists()
    found = found_in(tmp_path)
    assert found.broken is None
    assert found.seq_first is not None
    assert (found.seq_first > 1, found.head.seq) == (True, 200)
    note(tmp_path, clock, 1, bytes_max=1)  # the first row of a new file, written by another process
    found = found_in(tmp_path)
    assert (found.broken, found.head.seq) == (None, 201)


def changed(lines: list[bytes]) -> list[bytes]:
    return [*lines[:4], lines[4].replace(b"guest", b"other"), *lines[5:]]


def removed(lines: list[bytes]) -> list[bytes]:
    return [*lines[:4], *lines[5:]]


def swapped(lines: list[bytes]) -> list[bytes]:
    return [*lines[:4], lines[5], lines[4], *lines[6:]]


def inserted(lines: list[bytes]) -> list[bytes]:
    return [*lines[:4], b'{"at_ms": 1, "by": "guest", "act": "nothing", "outcome": "done"}', *lines[4:]]


def repeated(lines: list[bytes]) -> list[bytes]:
    return [*lines[:5], lines[4], *lines[5:]]


def blotted(lines: list[bytes]) -> list[bytes]:
    return [*lines[:4], b"x" * len(lines[4]), *lines[5:]]


def renumbered(lines: list[bytes]) -> list[bytes]:
    return [*lines[:4], lines[4].replace(b'"seq":5', b'"seq":"5"'), *lines[5:]]


def beheaded(lines: list[bytes]) -> list[bytes]:
    return lines[1:]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        (changed, "line 6"),
        (removed, "line 5"),
        (swapped, "line 5"),
        (inserted, "line 5"),
        (repeated, "line 6"),
        (blotted, "line 6"),
        (renumbered, "line 5"),
        (beheaded, "line 1"),
    ],
)
def test_a_change_is_noticed(
    clock: leveret.ManualClock, tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], where: str
) -> None:
    note(tmp_path, clock)
    rewrite(tmp_path, change(lines_of(tmp_path)))
    broken = found_in(tmp_path).broken
    assert broken is not None
    assert broken.startswith(f"audit.jsonl, {where}: ")


def test_a_removed_older_file_is_noticed(clock: leveret.ManualClock, tmp_path: Path) -> None:
    note(tmp_path, clock, 200, bytes_max=4_096)
    (tmp_path / "audit.1.jsonl").unlink()
    assert "no older file" in str(found_in(tmp_path).broken)


def test_rows_cut_off_at_the_end_are_noticed_by_whom_knows_the_head(clock: leveret.ManualClock, tmp_path: Path) -> None:
    note(tmp_path, clock)
    head = found_in(tmp_path).head
    assert found_in(tmp_path, head).broken is None
    rewrite(tmp_path, lines_of(tmp_path)[:-1])
    assert found_in(tmp_path).broken is None
    assert f"row {ROWS}" in str(found_in(tmp_path, head).broken)
    (tmp_path / "audit.jsonl").unlink()
    assert f"row {ROWS}" in str(found_in(tmp_path, head).broken)


@pytest.mark.parametrize("left", [b'{"at_ms": 17', b"\x00" * 5_000, b'{"at_ms": 17000, "by": "gu\n\x00\x00'])
def test_a_line_that_a_crash_has_cut_is_no_change(clock: leveret.ManualClock, tmp_path: Path, left: bytes) -> None:
    note(tmp_path, clock)
    with (tmp_path / "audit.jsonl").open("ab") as file:
        file.write(left)
    note(tmp_path, clock)
    found = found_in(tmp_path)
    assert (found.broken, found.rows, found.head.seq) == (None, 2 * ROWS, 2 * ROWS)
    assert found.torn == left.count(b"\n") + 1


def test_a_row_that_lacks_only_its_line_break_is_whole(clock: leveret.ManualClock, tmp_path: Path) -> None:
    note(tmp_path, clock)
    path = tmp_path / "audit.jsonl"
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    note(tmp_path, clock)
    found = found_in(tmp_path)
    assert (found.broken, found.rows, found.torn) == (None, 2 * ROWS, 0)


def test_rows_of_an_older_version_are_the_unchained_beginning(clock: leveret.ManualClock, tmp_path: Path) -> None:
    old = [json.dumps({"by": "guest", "act": f"old {number}", "at_ms": number}).encode() for number in range(3)]
    rewrite(tmp_path, old)
    assert (found_in(tmp_path).broken, found_in(tmp_path).unchained) == (None, 3)
    note(tmp_path, clock)
    found = found_in(tmp_path)
    assert (found.broken, found.unchained, found.rows, found.head.seq) == (None, 3, 3 + ROWS, ROWS)
    rewrite(tmp_path, [*old[:2], *lines_of(tmp_path)[3:]])
    assert str(found_in(tmp_path).broken).startswith("audit.jsonl, line 3: ")


def test_a_directory_without_rows_is_whole(tmp_path: Path) -> None:
    found = found_in(tmp_path)
    assert (found.rows, found.broken) == (0, None)


def test_every_log_is_chained(clock: leveret.ManualClock, tmp_path: Path) -> None:
    audit = Audit(clock, str(tmp_path))
    for number in range(1_000):
        audit.changed("app", "queue.declare", queue=f"q{number}")
        audit.refused("app", "act", "no", f"operation {number}", "AccessRefused")
    audit.note("guest", "act")
    heads = audit.heads()
    for kind, name in FILES.items():
        found = examine(name, *paths(str(tmp_path), name), heads[kind])
        assert (found.broken, found.head) == (None, heads[kind])
    assert heads["clients"].seq == 1_000
    audit.close()


def test_rows_that_the_disk_has_not_taken_are_told(clock: leveret.ManualClock, tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    audit = Audit(clock, str(directory))
    audit.note("guest", "first")
    directory.rename(tmp_path / "away")
    audit.note("guest", "lost")
    audit.note("guest", "lost too")
    (tmp_path / "away").rename(directory)
    audit.note("guest", "after")
    rows = [json.loads(line) for line in lines_of(directory)]
    assert [(row["act"], row.get("count")) for row in rows] == [
        ("first", None),
        ("write the audit log", 2),
        ("after", None),
    ]
    assert found_in(directory).broken is None
    audit.close()
