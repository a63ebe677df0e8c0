"""A real Redis in a process of its own, for tests: on a free port, its data in a folder, stopped by its pid."""

import subprocess
import time
from pathlib import Path
from typing import Any, Self

import pytest
import redis

from tests.cluster.coordination.etcd_process import free_ports
from tests.foreign_process import ForeignProcess
from tests.machine import Machine
from tests.parts import need_program
from tests.waiting import PATIENCE_S

POLL_S = 0.01
HERE = Machine("here")


def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a server wait for Redis as long as tests do: this machine may have other things to do."""
    for name in ("TIMEOUT_S", "CONNECT_TIMEOUT_S", "THREAD_TIMEOUT_S"):
        monkeypatch.setattr(f"leveret.runtime.shared.redis.{name}", PATIENCE_S)


class RedisProcess(ForeignProcess):
    """One Redis; `start` again after `kill`: it comes back at the same port, and has forgotten everything."""

    def __init__(self, folder: Path, *flags: str, password: str | None = None, machine: Machine = HERE) -> None:
        """A Redis that is not started yet."""
        need_program("redis-server")
        self._folder = folder
        self._machine = machine
        self._flags = [*flags, *(("--requirepass", password) if password else ())]
        self._password = password
        (self.port,) = free_ports(1)
        secret = f":{password}@" if password else ""
        self.url = f"redis://{secret}{machine.address}:{self.port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start it and wait until it answers."""
        host = self._machine.address
        command = [*self._machine.prefix, "redis-server", "--port", str(self.port), "--bind", host]
        command += ["--protected-mode", "no", "--dir", str(self._folder)]
        command += ["--save", "", "--appendonly", "no", *self._flags]
        with (self._folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + PATIENCE_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"Redis did not start:\n{(self._folder / 'redis.log').read_text()}")
            time.sleep(POLL_S)
        return self

    def _answers(self) -> bool:
        try:
            return bool(self.command("PING"))
        except redis.ConnectionError:
            return False

    def command(self, *words: str | int) -> Any:
        """Run a command as an administrator."""
        with redis.Redis(self._machine.address, self.port, password=self._password) as client:
            return client.execute_command(*words)

    @property
    def key_names(self) -> list[str]:
        """Every key that there is."""
        return sorted(key.decode() for key in self.command("KEYS", "*"))
