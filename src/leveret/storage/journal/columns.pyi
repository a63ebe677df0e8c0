from collections.abc import Callable
from mmap import mmap

KINDS: dict[int, str]

class Survey:
    start: int
    offset: int
    first_ms: int
    last_ms: int
    queues: set[int]
    consumers: set[int]
    definitions: list[tuple[int, bytes]]
    moved: list[tuple[int, int, int]]
    first_seq: int
    def __init__(
        self,
        data: bytes | memoryview | mmap,
        name: str,
        offset: int,
        end: int,
        salt: int,
        *,
        open_batch: Callable[[bytes, bytes], bytes] | None = None,
        may_be_torn: bool = False,
    ) -> None: ...
    def piece(self, piece_bytes: int) -> bool: ...

class EventColumns:
    rows: int
    def __init__(
        self,
        data: bytes | memoryview | mmap,
        name: str,
        offset: int,
        end: int,
        salt: int,
        *,
        open_batch: Callable[[bytes, bytes], bytes] | None = None,
        queues: bytes | None = None,
        since_ms: int = 0,
        until_ms: int = ...,
        content: bool = False,
        moved: bool = True,
    ) -> None: ...
    def fill(self, rows_max: int) -> bool: ...
    def take(self) -> dict[str, bytes]: ...
