"""Servers for tests that need not import anything: forks of one process that has imported all of it.

Importing is most of what a start costs, and there are hundreds of starts. What is asked for is still a process of its
own, with its own session, environment and log; only its parent is another one, which tells how it ended. And it hashes
passwords for nothing: see CHEAP.

    tests    -- a request on the control socket: command and environment; log and answers as descriptors --> nursery
    nursery  -- on the socket for answers: the pid, and the exit code when it has ended ------------------> tests
"""

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

PRELOADED = ("leveret.cli.serve", "leveret.server.process", "leveret.server.clustered")
READ_AT_START = ("PYTHON", "LD_")
"""How the names of variables begin that a process has read when it begins to run: no fork looks at them again."""
RUNS_TESTS = "PYTEST_VERSION"
"""The variable that pytest sets: examples and benchmarks want servers as they are elsewhere."""
REQUEST_BYTES_MAX = 1 << 17
ANSWER_BYTES_MAX = 100
CHEAP = {"n": 2, "r": 1, "p": 1}
"""What a hash of a password costs."""


# In the process of the tests


class Fork:
    """A process that the nursery has made, with the verbs of subprocess.Popen."""

    def __init__(self, answers: socket.socket) -> None:
        """One that is being made: its pid is the first answer."""
        self._answers = answers
        self.pid = self._told()
        self.returncode: int | None = None

    def _told(self) -> int:
        """The next answer."""
        said = self._answers.recv(ANSWER_BYTES_MAX)
        assert said, "the process that makes servers for tests has ended"
        return int(said)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, when it has ended."""
        if self.returncode is None:
            self._answers.settimeout(timeout)
            try:
                self.returncode = self._told()
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired("a fork", timeout or 0.0) from None
            self._answers.close()
        return self.returncode

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        """Send it a signal if it runs."""
        with suppress(ProcessLookupError):  # it has ended, and that is still to be told
            if self.poll() is None:
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


class Nursery:
    """The other process, as the tests see it."""

    def __init__(self, packages: str) -> None:
        """Start it; `packages` is where leveret is."""
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environ = {**os.environ, "PYTHONPATH": packages}
        self._environ = read_at_start(environ)
        with theirs:
            number = theirs.fileno()
            # -P: the folder of this file has names of the standard library in it.
            command = [sys.executable, "-P", __file__, str(number)]
            self._process = subprocess.Popen(command, env=environ, pass_fds=[number], start_new_session=True)

    def fork(self, words: Sequence[str], environ: Mapping[str, str], log: int) -> Fork | None:
        """A process that runs the command `leveret`; None if the environment needs one that begins at the beginning."""
        if read_at_start(environ) != self._environ:
            return None
        answers, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = {"words": list(words), "environ": dict(environ), "folder": os.getcwd()}
        with theirs:
            socket.send_fds(self._control, [json.dumps(request).encode()], [log, theirs.fileno()])
        return Fork(answers)

    def close(self) -> None:
        """End it, and what it has made and no test has ended."""
        self._control.close()
        self._process.wait()


def read_at_start(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that only a process which begins to run looks at."""
    return {name: value for name, value in environ.items() if name.startswith(READ_AT_START)}


@cache
def nursery(packages: str) -> Nursery | None:
    """The one of this process; None where processes are not made like that, and for whoever runs no test."""
    if sys.platform != "linux" or RUNS_TESTS not in os.environ:
        return None
    made = Nursery(packages)
    atexit.register(made.close)
    return made


# In the other process


def tend(control: socket.socket) -> list[str]:
    """Make processes until nobody asks for more; returns in each of them, with the words of its command."""
    children: dict[int, socket.socket] = {}
    ends, wake = socket.socketpair()
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    while True:
        ready, _, _ = select.select([control, ends], [], [])
        if ends in ready:
            ends.recv(4_096)
            tell_ends(children)
        if control in ready:
            data, numbers, _, _ = socket.recv_fds(control, REQUEST_BYTES_MAX, 2)
            if not data:
                for left in children:
                    os.kill(left, signal.SIGKILL)
                sys.exit()
            answers = socket.socket(fileno=numbers[1])
            pid = os.fork()
            if not pid:
                for each in (control, ends, wake, answers, *children.values()):
                    each.close()
                return become(json.loads(data), numbers[0])
            os.close(numbers[0])
            children[pid] = answers
            answers.send(b"%d" % pid)


def tell_ends(children: dict[int, socket.socket]) -> None:
    """Tell how those have ended that did, to whoever asked for them."""
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with children.pop(pid) as answers:
            try:
                answers.send(b"%d" % os.waitstatus_to_exitcode(status))
            except BrokenPipeError:
                continue  # nobody wants to know


def become(request: dict[str, Any], log: int) -> list[str]:
    """Be what was asked for."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.dup2(log, sys.stderr.fileno())
    os.close(log)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environ"])
    time.tzset()
    words: list[str] = request["words"]
    return words


def cheapen_passwords() -> None:
    """Hash quickly: it takes long on purpose, and every new server does it, and every first login."""
    cost = import_module("leveret.security.passwords").DEFAULT_COST
    for name, value in CHEAP.items():
        object.__setattr__(cost, name, value)


if __name__ == "__main__":
    for name in PRELOADED:
        import_module(name)
    cheapen_passwords()
    gc.freeze()  # or each of them looks at all of it again when it ends
    chosen = tend(socket.socket(fileno=int(sys.argv[1])))
    sys.argv = ["leveret", *chosen]
    sys.exit(import_module("leveret.cli.main").main())
