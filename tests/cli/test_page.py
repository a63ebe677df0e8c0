"""The examples of docs/cli.md do what they say: each command is run, and its output compared."""

import io
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

from leveret.cli import main
from leveret.cli.actions import ACTIONS
from tests.server.control_world import SMALL
from tests.sources import ROOT

PAGE = (ROOT / "docs" / "cli.md").read_text()
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*\n(?:> .*\n)*)((?:(?!\$ ).*\n)*)", re.MULTILINE)


class Example(NamedTuple):
    """A command as somebody types it, and what he sees."""

    command: str
    output: str


def examples(page: str) -> list[Example]:
    """Every command of a page, in order."""
    found = (match for block in BLOCK.findall(page) for match in COMMAND.finditer(block))
    return [Example(match[1].replace("\n> ", "\n"), match[2]) for match in found]


def environment(tools: Path) -> dict[str, str]:
    """One in which `leveret` is this source."""
    tools.mkdir()
    (tools / "leveret").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m leveret "$@"\n')
    (tools / "leveret").chmod(0o700)
    small = {f"LEVERET_{name.upper()}": str(value) for name, value in SMALL.items()}
    path = f"{tools}:{os.environ['PATH']}"
    return {**os.environ, **small, "PATH": path, "PYTHONPATH": ":".join(map(os.path.abspath, sys.path))}


def plain(command: str) -> list[str] | None:
    """The words of a command that needs no shell, without the first; None for others."""
    if not command.startswith("leveret ") or "$" in command:
        return None
    words = list(shlex.shlex(command, posix=True, punctuation_chars=True))
    return None if any(word[0] in "|&;<>()" for word in words if word) else shlex.split(command)[1:]


def by_shell(command: str, environ: dict[str, str], folder: Path) -> str:
    """What a shell prints that is told to run a command."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    return done.stdout


def here(words: list[str]) -> str:
    """What a command prints, called as a function: a process for each of them would take most of the time."""
    printed = io.StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        main.main(words)
    return printed.getvalue()


def test_every_example_prints_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = environment(tmp_path / "tools")
    monkeypatch.chdir(tmp_path)
    for name, value in SMALL.items():
        monkeypatch.setenv(f"LEVERET_{name.upper()}", str(value))
    for example in examples(PAGE):
        words = plain(example.command)
        printed = by_shell(example.command, environ, tmp_path) if words is None else here(words)
        assert printed == example.output, example.command


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
    assert {tuple(action.verb.split(".")) for action in ACTIONS} <= shown
    managing = {command.name for command in main.COMMANDS} - {"serve"}
    assert managing <= {noun for noun, _ in shown} | {"status"}


def test_commands_and_their_output_are_told_apart() -> None:
    page = "```console\n$ a <<E\n> b\n> E\nout\nmore\n$ c\n```\n```python\nd\n```\n"
    assert examples(page) == [Example("a <<E\nb\nE\n", "out\nmore\n"), Example("c\n", "")]
