"""All that clients did and saw, and which faults there were: one operation a line, also as JSON.

{"at_s": 1.204, "who": "p0.1", "what": "publish", "outcome": "invoke", "queue": "q3", "message": "p0.1 17"}

A publish is invoked, and then ok (confirmed), fail (refused: it may or may not be there) or unknown (nobody answered).
A delivery is ok; `again` says that the broker calls it a redelivery. That a message is settled is written down only
where the broker answers to it. What is read of a stream is ok, and has its place there. A change of a definition is
invoked, and ok when it is answered: its message says what is there or gone then, "binding d0.17 there". A look is ok,
and says in the same way what was seen. A fault is invoked, and ok when it is over.
"""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

PUBLISH, DELIVER, SETTLE, READ, FAULT = "publish", "deliver", "settle", "read", "fault"
CHANGE, LOOK = "change", "look"
THERE, GONE = "there", "gone"
INVOKE, OK, FAIL, UNKNOWN = "invoke", "ok", "fail", "unknown"


class Operation(NamedTuple):
    """A line of the history."""

    at_s: float
    who: str
    what: str
    outcome: str
    queue: str = ""
    message: str = ""
    again: bool = False
    partition: int = 0
    offset: int = 0


class History:
    """Operations in the order that they were written down, by any thread."""

    def __init__(self, path: Path | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start_s = clock()
        self._lock = threading.Lock()
        self._operations: list[Operation] = []
        self._file = None if path is None else path.open("w")

    @property
    def now_s(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._start_s

    def note(
        self,
        who: str,
        what: str,
        outcome: str,
        queue: str = "",
        message: str = "",
        again: bool = False,
        partition: int = 0,
        offset: int = 0,
    ) -> Operation:
        """Write an operation down."""
        with self._lock:
            operation = Operation(round(self.now_s, 4), who, what, outcome, queue, message, again, partition, offset)
            self._operations.append(operation)
            if self._file is not None:
                self._file.write(json.dumps(operation._asdict()) + "\n")
        return operation

    @property
    def length(self) -> int:
        """How many there are."""
        with self._lock:
            return len(self._operations)

    def since(self, position: int = 0) -> list[Operation]:
        """What was written down from a position on."""
        with self._lock:
            return self._operations[position:]

    def close(self) -> None:
        """Write nothing more into the file."""
        if self._file is not None:
            self._file.close()
