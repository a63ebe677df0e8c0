"""A control socket on a loop of its own, as a server has it, without the rest of the server."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import leveret
from leveret.operations.context import OperationContext
from leveret.operations.perform import durably
from leveret.security.access import Access
from leveret.security.passwords import Cost, hash_password
from leveret.server.control import ControlServer
from tests.waiting import PATIENCE_S

CHEAP = Cost(2, 1, 1)
HASH = hash_password("lovelace", CHEAP)
SMALL: dict[str, Any] = {"spare_bytes": 0, "disk_free_min_bytes": 0}


class Served:
    """A broker on a directory, with a loop in a thread that serves its control socket."""

    def __init__(self, directory: Path) -> None:
        self.directory = str(directory)
        self.broker = leveret.open(directory, **SMALL)
        with self.broker.runtime as core:
            self.access = Access(core, cost=CHEAP)
            self.context = OperationContext(core, self.access, lambda: {"pid": 4711})
        self.control = ControlServer(durably(self.broker.runtime), self.context, self.directory)
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        self._run(self.control.start())

    def _run(self, call: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(call, self.loop).result(PATIENCE_S)

    def answer(self, line: bytes) -> dict[str, Any]:
        """What the server answers to one line."""
        answer: dict[str, Any] = self._run(self.control.answer(line))
        return answer

    def stop(self) -> None:
        """End the loop and close the broker."""
        self._run(self.control.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE_S)
        self.loop.close()
        self.broker.close()
