"""Real child processes: started with a script, read line by line, killed or asked to stop."""

import signal
import subprocess
import sys
from types import TracebackType
from typing import Self

from tests.waiting import PATIENCE_S


class Child:
    """A Python process; `module` is run with arguments, and what it prints is read as lines."""

    def __init__(self, module: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": ":".join(sys.path)},
        )

    def line(self) -> str:
        """The next line; a child that ended instead fails the test with what it complained of."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        line = self.process.stdout.readline()
        if not line.endswith("\n"):
            raise AssertionError(f"the child ended early: {self.process.stderr.read()}")
        return line.rstrip("\n")

    def kill(self) -> list[str]:
        """End it as a power switch does; give the whole lines that it had still printed."""
        self.process.send_signal(signal.SIGKILL)
        return self.rest()

    def rest(self) -> list[str]:
        """Every whole line until the end."""
        assert self.process.stdout is not None
        lines = [line for line in self.process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        self.process.wait(PATIENCE_S)
        return [line.rstrip("\n") for line in lines]

    def complaints(self) -> str:
        """What it wrote to the standard error stream."""
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()


def say(*words: object) -> None:
    """Print one line in one piece, whatever the other threads print."""
    sys.stdout.write(" ".join(str(word) for word in words) + "\n")
    sys.stdout.flush()
