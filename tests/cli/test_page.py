"""The examples of docs/cli.md do what they say: each command is run, and its output compared."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from leveret.cli import main
from leveret.cli.actions import ACTIONS
from leveret.cli.connection import URL
from tests.cli.shell import Shell, plain
from tests.server_process import ServerProcess
from tests.sources import ROOT

PAGE = (ROOT / "docs" / "cli.md").read_text()
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WITHOUT_ACTIONS = ("publish", "consume", "peek", "tail", "redrive", "top", "bench", "doctor", "status")
COMMAND = re.compile(r"^\$ (.*\n(?:> .*\n)*)((?:(?!\$ ).*\n)*)", re.MULTILINE)


class Example(NamedTuple):
    """A command as somebody types it, and what he sees."""

    command: str
    output: str


def examples(page: str) -> list[Example]:
    """Every command of a page, in order."""
    found = (match for block in BLOCK.findall(page) for match in COMMAND.finditer(block))
    return [Example(match[1].replace("\n> ", "\n"), match[2]) for match in found]


def test_every_example_prints_what_the_page_says(
    asked: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = Shell(tmp_path, monkeypatch)
    by_http, on_a_directory = PAGE.split("## Administration")
    for part in (by_http, on_a_directory):
        for example in examples(part):
            assert shell.run(example.command)[1] == example.output, example.command
        monkeypatch.setenv(URL, "")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("leveret users list\n", ["users", "list"]),
        ("leveret policies set p '^a|b' '{}'\n", ["policies", "set", "p", "^a|b", "{}"]),
        ("echo x | leveret users add ada\n", None),
        ("leveret users list > file\n", None),
        ("leveret users list | head\n", None),
        ("leveret users delete $NAME\n", None),
    ],
)
def test_commands_that_need_a_shell_are_known(command: str, words: list[str] | None) -> None:
    assert plain(command) == words


def test_the_page_shows_every_action() -> None:
    shown = {tuple(words) for words in re.findall(r"leveret ([\w-]+) ([\w-]+)", PAGE)}
    assert {tuple(verb.split(".")) for verb in ACTIONS} <= shown
    managing = set(main.COMMANDS) - {"serve", *WITHOUT_ACTIONS}
    assert managing <= {noun for noun, _ in shown}
    assert all(f"leveret {name}" in PAGE for name in WITHOUT_ACTIONS)


def test_commands_and_their_output_are_told_apart() -> None:
    page = "```console\n$ a <<E\n> b\n> E\nout\nmore\n$ c\n```\n```python\nd\n```\n"
    assert examples(page) == [Example("a <<E\nb\nE\n", "out\nmore\n"), Example("c\n", "")]
