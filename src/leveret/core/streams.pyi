from collections.abc import Callable, Collection
from typing import Protocol, type_check_only

from leveret.core.queue import Queue

class Author:
    producer: bytes
    sequence: int

class Recorder:
    partition: int
    offset: int
    repeated: bool
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
    ) -> StreamCursor: ...

class StreamCursor:
    partition: int
    offset: int
    def missing(self) -> Callable[[], None] | None: ...
    def fetched(self) -> None: ...
    def close(self) -> None: ...

@type_check_only
class Streams(Protocol):
    """Where a broker keeps its streams."""

    @property
    def author(self) -> Author:
        """Who publishes at this moment."""

    def recorder_of(self, queue: Queue) -> Recorder:
        """The recorder of a stream, which may be new."""

    def drop(self, queue: Queue) -> None:
        """A stream was deleted: remove it when that is durable."""

    def forget(self, producer: bytes) -> None:
        """A producer will not send anything again."""

class NoStreams:
    author: Author
    def __init__(self) -> None: ...
    def forget(self, producer: bytes) -> None: ...
    def recorder_of(self, queue: Queue) -> Recorder: ...
    def drop(self, queue: Queue) -> None: ...
