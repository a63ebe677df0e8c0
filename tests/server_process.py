"""A real server in a process of its own, for tests: started on free ports, stopped by its pid, its log looked at.

with ServerProcess(tmp_path) as server:
    pika.BlockingConnection(pika.URLParameters(server.url))
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import leveret
from tests.machine import PROGRAM
from tests.nursery import Fork, nursery
from tests.waiting import PATIENCE_S

PACKAGES = str(Path(leveret.__file__).parents[1])  # those that the tests use: the sanitizer has its own
USUAL = (sys.executable, *PROGRAM)
POLL_S = 0.01
FREE_PORTS = ("--amqp-port", "0", "--http-port", "0", "--https-port", "0", "--sqs-port", "0")
TRACEBACK = "Traceback (most recent call last)"
READY = re.compile(r".*\bready\b.*\bamqps?\b.*\n")
PORT = re.compile(r"\b(amqps?|https?|sqs(?:\+tls)?)\W+[\d.]+:(\d+)")


class ServerProcess:
    """One server; `start` again after `kill` or `stop` to see what it kept."""

    def __init__(
        self,
        folder: Path,
        *flags: str,
        environ: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        program: Sequence[str] = PROGRAM,
        python: str = sys.executable,
    ) -> None:
        """A server with its data in a folder; it is not started yet.

        `prefix` is what its command begins with, `program` what Python is to run, which is `python`.
        """
        self.data = folder / "data"
        self.ports: dict[str, int] = {}
        self._flags = flags
        self._prefix = prefix
        self._program = program
        self._python = python
        self._environ = {key: value for key, value in os.environ.items() if not key.startswith("LEVERET_")}
        self._environ |= {"PYTHONPATH": PACKAGES, **(environ or {})}
        self._process: Fork | subprocess.Popen[bytes] | None = None
        self._log = folder / "server.log"
        self._log_bytes = 0

    # Starting and stopping

    def start(self, *flags: str) -> Self:
        """Start it and wait until it is ready; these flags come after those of the constructor."""
        words = ["serve", "--data", str(self.data), *FREE_PORTS, *self._flags, *flags]
        self._log_bytes = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as log:
            self._process = self._forked(words, log.fileno()) or self._executed(words, log.fileno())
        self._wait_until(lambda: READY.search(self.text))
        found = READY.search(self.text)
        if found is None:
            self.kill()
            raise AssertionError(f"the server did not start:\n{self.text}")
        self.ports = {name: int(port) for name, port in PORT.findall(found[0])}
        return self

    def _forked(self, words: Sequence[str], log: int) -> Fork | None:
        """A process that has imported everything; None when this server has to be started in another way."""
        forks = None if self._prefix or (self._python, *self._program) != USUAL else nursery(PACKAGES)
        return forks.fork(words, self._environ, log) if forks else None

    def _executed(self, words: Sequence[str], log: int) -> subprocess.Popen[bytes]:
        """A process that begins at the beginning, as an operator starts it."""
        command = [*self._prefix, self._python, *self._program, *words]
        # In a session of its own: an interrupt from the keyboard is for whoever started it.
        return subprocess.Popen(command, env=self._environ, stderr=log, start_new_session=True)

    def _wait_until(self, condition: Callable[[], object]) -> None:
        """Wait until something is true, the server has ended, or nobody would wait any longer."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition() and self._running.poll() is None and time.monotonic() < deadline:
            time.sleep(POLL_S)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._running.send_signal(number)

    def wait(self) -> int:
        """Wait for its end; give its exit code."""
        try:
            return self._running.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._running.kill()
            raise AssertionError(f"the server did not end:\n{self.text}") from None
        finally:
            self._process = None

    def stop(self) -> int:
        """Let it end as an operator would; give its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> int:
        """End it as a power cut would."""
        self.signal(signal.SIGKILL)
        return self.wait()

    @property
    def _running(self) -> Fork | subprocess.Popen[bytes]:
        assert self._process is not None, "the server is not running"
        return self._process

    # What tests look at

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._running.pid

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._running.poll() is None

    @property
    def port(self) -> int:
        """The port for AMQP."""
        return self.ports["amqp"]

    @property
    def url(self) -> str:
        """Where clients connect to."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}/%2F"

    @property
    def http_url(self) -> str:
        """Where clients of REST connect to."""
        return f"http://guest:guest@127.0.0.1:{self.ports['http']}"

    def client(self) -> leveret.RemoteBroker:
        """A client of REST."""
        return leveret.connect(self.http_url)

    @property
    def text(self) -> str:
        """All that it has logged since it was started; the end of it may be half a character."""
        return self._log.read_bytes()[self._log_bytes :].decode(errors="replace")

    def wait_for(self, text: str) -> None:
        """Wait until it has logged something."""
        self._wait_until(lambda: text in self.text)
        assert text in self.text, f"the server did not say {text!r}:\n{self.text}"

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it if it runs; whatever it met that it did not expect fails the test."""
        code = self.stop() if self._process is not None else 0
        if error is None:
            assert TRACEBACK not in self.text, self.text
            assert code == 0, f"the server ended with {code}:\n{self.text}"
