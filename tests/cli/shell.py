"""A shell in which `leveret` is this source. What needs no shell is called in this process: that is much faster."""

import io
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from leveret.cli import main
from tests.server.control_world import SMALL
from tests.waiting import PATIENCE_S


def plain(command: str) -> list[str] | None:
    """The words of a command that needs no shell, without the first; None for others."""
    if not command.startswith("leveret ") or "$" in command:
        return None
    words = list(shlex.shlex(command, posix=True, punctuation_chars=True))
    return None if any(word[0] in "|&;<>()" for word in words if word) else shlex.split(command)[1:]


def environment(tools: Path) -> dict[str, str]:
    """One in which `leveret` is this source."""
    tools.mkdir()
    (tools / "leveret").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m leveret "$@"\n')
    (tools / "leveret").chmod(0o700)
    small = {f"LEVERET_{name.upper()}": str(value) for name, value in SMALL.items()}
    path = f"{tools}:{os.environ['PATH']}"
    return {**os.environ, **small, "PATH": path, "PYTHONPATH": ":".join(map(os.path.abspath, sys.path))}


class Shell:
    """A directory and an environment to run command lines in."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        monkeypatch.chdir(folder)
        for name, value in environment(folder / "tools").items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))

    def run(self, line: str) -> tuple[int, str]:
        """The exit code of a command line, and what somebody sees."""
        words = plain(line)
        if words is not None:
            return self._call(words)
        command = ["bash", "-c", line]
        out, none = subprocess.PIPE, subprocess.DEVNULL
        done = subprocess.run(command, stdin=none, stdout=out, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S)
        return done.returncode, done.stdout

    def _call(self, words: list[str]) -> tuple[int, str]:
        seen = io.BytesIO()
        with self._monkeypatch.context() as patch:
            output = io.TextIOWrapper(seen, write_through=True)
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
            patch.setattr(sys, "stdout", output)
            patch.setattr(sys, "stderr", output)
            code = main.main(words)
            output.flush()
        return code, seen.getvalue().decode()
