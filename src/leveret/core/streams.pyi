from collections.abc import Callable, Collection

from leveret.core.queue import Queue

class Author:
    producer: bytes
    sequence: int

class Recorder:
    partition: int
    offset: int
    repeated: bool
    length: int
    size_bytes: int
    partitions: int
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

class NoStreams:
    author: Author
    def __init__(self) -> None: ...
    def forget(self, producer: bytes) -> None: ...
    def recorder_of(self, queue: Queue) -> Recorder: ...
    def drop(self, queue: Queue) -> None: ...
