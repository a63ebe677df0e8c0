"""A real HAProxy in a process of its own, for tests: from free ports to those of a server, with PROXY headers."""

import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.cluster.coordination.etcd_process import free_ports
from tests.foreign_process import ForeignProcess
from tests.parts import need_program
from tests.waiting import PATIENCE_S

POLL_S = 0.01


class HaproxyProcess(ForeignProcess):
    """One HAProxy; `ports` has where clients connect to, by the names of the ports behind."""

    def __init__(self, folder: Path, behind: Mapping[str, int], send: str = "send-proxy-v2") -> None:
        """A HAProxy that is not started yet."""
        need_program("haproxy")
        self._folder = folder
        self.ports = dict(zip(behind, free_ports(len(behind)), strict=True))
        lines = ["defaults", "  mode tcp", "  timeout connect 100s", "  timeout client 100s", "  timeout server 100s"]
        for name, port in behind.items():
            lines += [f"listen {name.replace('+', '_')}", f"  bind 127.0.0.1:{self.ports[name]}"]
            lines += [f"  server one 127.0.0.1:{port} {send}"]
        self._config = folder / "haproxy.cfg"
        self._config.write_text("\n".join([*lines, ""]))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start it and wait until it listens."""
        with (self._folder / "haproxy.log").open("ab") as log:
            command = ["haproxy", "-db", "-f", str(self._config)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + PATIENCE_S
        while not all(map(self._listens, self.ports.values())):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"HAProxy did not start:\n{(self._folder / 'haproxy.log').read_text()}")
            time.sleep(POLL_S)
        return self

    def _listens(self, port: int) -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), PATIENCE_S).close()
        except ConnectionRefusedError:
            return False
        return True
