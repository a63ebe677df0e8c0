from collections.abc import Callable
from mmap import mmap

class Survey:
    start: int
    offset: int
    first_ms: int
    last_ms: int
    queues: set[int]
    consumers: set[int]
    definitions: list[tuple[int, bytes]]
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
