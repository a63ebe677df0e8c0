from collections.abc import Callable
from mmap import mmap

KINDS: dict[int, str]

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
