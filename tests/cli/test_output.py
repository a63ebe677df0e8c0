"""What people see: tables that fit, progress, numbers, completion."""

import io
import subprocess
import sys

import pytest

from leveret.cli import main
from leveret.cli.completion import SHELLS, candidates
from leveret.cli.output import ProgressLine, as_table, for_terminal, in_bytes, in_short, in_time, line_of
from tests.waiting import PATIENCE_S


class Terminal(io.StringIO):
    """Somebody looks at it."""

    def isatty(self) -> bool:
        return True


def test_a_table_fits_into_the_terminal_and_is_bold_unless_told_not_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    table = as_table([{"name": "a" * 30, "n": 1}], ("name", "n"))
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    head, row = for_terminal(table, 10).split("\n")
    assert head == "\x1b[1mname     …\x1b[0m"
    assert row == "aaaaaaaaa…"
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in for_terminal(table, 10)


def test_progress_says_how_far_how_fast_and_how_long() -> None:
    assert (
        line_of("reading", 50, 200, 5, in_bytes)
        == "reading  [######..................]  25%  50 B of 200 B  10 B/s  15 s"
    )
    assert line_of("reading", 50, None, 5, in_short) == "reading  50  10/s"
    assert line_of("reading", 0, 200, 0, in_short).endswith("0 of 200  0/s")
    assert "100%" in line_of("reading", 300, 200, 5, in_short)


def test_progress_is_quiet_when_nobody_looks_and_leaves_a_clean_line() -> None:
    quiet, seen = io.StringIO(), Terminal()
    for stream in (quiet, seen):
        with ProgressLine("x", 10, stream=stream) as progress:
            progress._last_s -= 1
            progress.add(5)
    assert quiet.getvalue() == ""
    assert "50%" in seen.getvalue()
    assert seen.getvalue().endswith("\r\x1b[K")


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (in_bytes(0), "0 B"),
        (in_bytes(1536), "1.5 KiB"),
        (in_bytes(200 << 30), "200 GiB"),
        (in_short(999), "999"),
        (in_short(1_234_567), "1.2M"),
        (in_short(0.25), "0.2"),
        (in_time(0.0125), "12 ms"),
        (in_time(90), "2 min"),
        (in_time(400_000), "5 d"),
    ],
)
def test_numbers_for_people(shown: str, text: str) -> None:
    assert shown == text


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["pub"], ["publish"]),
        (["queues", ""], ["bind", "declare", "delete", "list", "pause", "purge", "resume", "show", "unbind"]),
        (["publish", "orders", "--pri"], ["--priority"]),
        (["completion", "b"], ["bash"]),
        (["nothing", "--nothing", "x"], []),
    ],
)
def test_words_are_completed(words: list[str], found: list[str]) -> None:
    assert candidates(main.parser(words), words) == found


def test_every_command_is_completed() -> None:
    assert candidates(main.parser([]), [""]) == sorted(main.COMMANDS)


def test_the_script_of_bash_completes() -> None:
    tools = f'leveret() {{ "{sys.executable}" -m leveret "$@"; }}\n'
    words = 'COMP_WORDS=(leveret queues pu); COMP_CWORD=2; _leveret; echo "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "-c", tools + SHELLS["bash"] + words], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.stdout == "purge\n"
