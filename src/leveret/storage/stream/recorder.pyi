from collections.abc import Callable, Collection
from typing import Any

from leveret.core.queue import Queue
from leveret.core.streams import Author, Recorder, StreamCursor
from leveret.storage.stream.log import PartitionLog

KEY: str
FILTER: str
PRODUCER: str
SEQUENCE: str
SEQUENCE_MAX: int

def check_labels(headers: dict[str, Any]) -> None: ...

class StreamRecorder(Recorder):
    dirty: bool
    closed: bool
    def __init__(
        self,
        queue: Queue,
        logs: list[PartitionLog],
        noted: list[StreamRecorder],
        fetch: Callable[[bytes], bytes],
        author: Author,
    ) -> None: ...
    queue: Queue
    logs: list[PartitionLog]
    @property
    def behind(self) -> bool: ...
    def figures(self) -> list[dict[str, int]]: ...
    def earliest(self, partition: int) -> int: ...
    def latest(self, partition: int) -> int: ...
    def at(self, partition: int, timestamp_ms: int) -> int: ...
    def cursor(
        self,
        partition: int,
        start: object,
        now_ms: int,
        wanted: Collection[bytes] | None = None,
        match_unfiltered: bool = False,
    ) -> StreamCursor: ...
