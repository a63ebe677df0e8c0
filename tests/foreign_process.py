"""A program of others in a process of its own, for tests: signalled, and ended by its pid."""

import os
import signal
import subprocess
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from tests.waiting import PATIENCE_S


class ForeignProcess(ABC):
    """What etcd and Redis have in common: `start` makes `_process`."""

    _process: subprocess.Popen[bytes] | None

    @abstractmethod
    def start(self) -> Self:
        """Start it and wait until it answers."""

    def signal(self, number: int) -> None:
        """Send it a signal; SIGSTOP has stopped it when this returns."""
        assert self._process is not None, "it is not running"
        self._process.send_signal(number)
        if number == signal.SIGSTOP:
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def kill(self) -> None:
        """End it as a power cut would."""
        self.signal(signal.SIGKILL)
        assert self._process is not None
        self._process.wait(PATIENCE_S)
        self._process = None

    def __enter__(self) -> Self:
        """Start it."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it if it runs."""
        if self._process is not None:
            self.kill()
