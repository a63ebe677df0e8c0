"""A real etcd in a process of its own, for tests: on free ports, its data in a folder, stopped by its pid."""

import os
import secrets
import socket
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.foreign_process import ForeignProcess
from tests.parts import need_program
from tests.waiting import PATIENCE_S

POLL_S = 0.02
PORTS = range(10_000, 32_768)
"""Below those that connections and servers get which ask for any."""


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, and that the system gives to nobody else: programs come back to them."""
    ports: set[int] = set()
    while len(ports) < count:
        port = secrets.choice(PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            ports.add(port)
    return list(ports)


class EtcdProcess(ForeignProcess):
    """One etcd; `start` again after `kill` to see what it kept."""

    def __init__(
        self, folder: Path, *flags: str, scheme: str = "http", host: str = "127.0.0.1", prefix: Sequence[str] = ()
    ) -> None:
        """An etcd with its data in a folder; it is not started yet. `prefix` is what its command begins with."""
        need_program("etcd")
        self._folder = folder
        self._flags = flags
        self._prefix = prefix
        client, peer = free_ports(2)
        self.url = f"{scheme}://{host}:{client}"
        self._peer = f"http://{host}:{peer}"
        self.members = [self]
        """All of its cluster, itself too; to be changed before the first start."""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        """What it is called in its cluster."""
        return f"etcd{self._peer.rpartition(':')[2]}"

    def launch(self) -> None:
        """Start it; a member of several answers when most of them are there."""
        command = [*self._prefix, "etcd", "--data-dir", str(self._folder / "etcd"), "--name", self.name]
        command += ["--logger", "zap", "--log-outputs", "stderr"]
        command += ["--listen-client-urls", self.url, "--advertise-client-urls", self.url]
        command += ["--listen-peer-urls", self._peer, "--initial-advertise-peer-urls", self._peer]
        command += ["--initial-cluster", ",".join(f"{each.name}={each._peer}" for each in self.members), *self._flags]
        environ = {**os.environ, "ETCD_UNSUPPORTED_ARCH": os.uname().machine}
        with (self._folder / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environ, start_new_session=True)

    def wait(self) -> None:
        """Wait until it answers."""
        deadline = time.monotonic() + PATIENCE_S
        while not self._listens():
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"etcd did not start:\n{self.log}")
            time.sleep(POLL_S)

    def start(self) -> Self:
        """Start it and wait until it answers."""
        self.launch()
        self.wait()
        return self

    def _listens(self) -> bool:
        """Whether it takes requests; one with TLS only has to take connections."""
        host, port = self.url.removeprefix("https://").removeprefix("http://").split(":")
        try:
            if self.url.startswith("http:"):
                with urllib.request.urlopen(f"{self.url}/health", timeout=1) as answer:
                    return b"true" in answer.read()
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            return False
        return True

    @property
    def log(self) -> str:
        """What it has logged."""
        return (self._folder / "etcd.log").read_text()
