from collections.abc import Collection
from typing import Protocol

from leveret.core.queue import Queue

class Recorder:
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def repeated(self) -> bool: ...
    @property
    def length(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def partitions(self) -> int: ...
    def figures(self) -> list[dict[str, int]]: ...
    def cursor(
        self,
        partition: int,
        start: object,
        now_ms: int,
        wanted: Collection[bytes] | None = None,
        match_unfiltered: bool = False,
    ) -> Cursor: ...

class Cursor:
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    def close(self) -> None: ...

class Streams(Protocol):
    """Where a broker keeps its streams."""

    def recorder_of(self, queue: Queue) -> Recorder:
        """The recorder of a stream, which may be new."""

    def drop(self, queue: Queue) -> None:
        """A stream was deleted: remove it when that is durable."""

class NoStreams:
    def recorder_of(self, queue: Queue) -> Recorder: ...
    def drop(self, queue: Queue) -> None: ...
