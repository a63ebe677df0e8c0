from collections.abc import Callable
from typing import Any

from leveret.core.queue import Queue
from leveret.core.streams import Author, Recorder
from leveret.storage.stream.log import PartitionLog

KEY: str
FILTER: str
PRODUCER: str
SEQUENCE: str

def check_labels(headers: dict[str, Any]) -> None: ...

class StreamRecorder(Recorder):
    dirty: bool
    closed: bool
    def __init__(
        self,
        queue: Queue,
        logs: list[PartitionLog],
        note: Callable[[StreamRecorder], None],
        fetch: Callable[[bytes], bytes],
        author: Author,
    ) -> None: ...
    queue: Queue
    logs: list[PartitionLog]
    behind: bool
    def earliest(self, partition: int) -> int: ...
    def latest(self, partition: int) -> int: ...
    def at(self, partition: int, timestamp_ms: int) -> int: ...
