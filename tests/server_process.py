"""A real server in a process of its own, for tests: started on free ports, stopped by its pid, its log looked at.

with ServerProcess(tmp_path) as server:
    pika.BlockingConnection(pika.URLParameters(server.url))
"""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.sources import ROOT

PATIENCE_S = 30
TRACEBACK = "Traceback (most recent call last)"
READY = re.compile(r"\bready\b.*\bamqps?\b")
PORT = re.compile(r"\b(amqps?|sqs(?:\+tls)?)\W+[\d.]+:(\d+)")


class ServerProcess:
    """One server; `start` again after `kill` or `stop` to see what it kept."""

    def __init__(self, folder: Path, *flags: str, environ: dict[str, str] | None = None) -> None:
        """A server with its data in a folder; it is not started yet."""
        self.data = folder / "data"
        self.ports: dict[str, int] = {}
        self._flags = flags
        self._environ = {key: value for key, value in os.environ.items() if not key.startswith("LEVERET_")}
        self._environ |= {"PYTHONPATH": str(ROOT / "src"), **(environ or {})}
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._lines: list[str] = []
        self._ended = False
        self._heard = threading.Condition()

    # Starting and stopping

    def start(self, *flags: str) -> Self:
        """Start it and wait until it is ready; these flags come after those of the constructor."""
        command = [
            sys.executable,
            "-m",
            "leveret",
            "serve",
            "--data",
            str(self.data),
            "--amqp-port",
            "0",
            "--sqs-port",
            "0",
        ]
        self._process = subprocess.Popen(
            [*command, *self._flags, *flags], env=self._environ, stderr=subprocess.PIPE, text=True
        )
        self.ports, self._lines, self._ended = {}, [], False
        self._reader = threading.Thread(target=self._read, args=(self._process,))
        self._reader.start()
        with self._heard:
            self._heard.wait_for(lambda: self.ports or self._ended, PATIENCE_S)
        if not self.ports:
            self.kill()
            raise AssertionError(f"the server did not start:\n{self.text}")
        return self

    def _read(self, process: subprocess.Popen[str]) -> None:
        """Keep what the server says, and look for the line with its ports."""
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                with self._heard:
                    self._lines.append(line)
                    if not self.ports and READY.search(line):
                        self.ports = {name: int(port) for name, port in PORT.findall(line)}
                    self._heard.notify_all()
        with self._heard:
            self._ended = True
            self._heard.notify_all()

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._running.send_signal(number)

    def wait(self) -> int:
        """Wait for its end; give its exit code."""
        code = self._running.wait(PATIENCE_S)
        assert self._reader is not None
        self._reader.join()
        self._process = None
        return code

    def stop(self) -> int:
        """Let it end as an operator would; give its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> int:
        """End it as a power cut would."""
        self.signal(signal.SIGKILL)
        return self.wait()

    @property
    def _running(self) -> subprocess.Popen[str]:
        assert self._process is not None, "the server is not running"
        return self._process

    # What tests look at

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._running.pid

    @property
    def port(self) -> int:
        """The port for AMQP."""
        return self.ports["amqp"]

    @property
    def url(self) -> str:
        """Where clients connect to."""
        return f"amqp://guest:guest@127.0.0.1:{self.port}/%2F"

    @property
    def text(self) -> str:
        """All that it has logged since it was started."""
        return "".join(self._lines)

    def wait_for(self, text: str) -> None:
        """Wait until it has logged something."""
        with self._heard:
            self._heard.wait_for(lambda: text in self.text or self._ended, PATIENCE_S)
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
