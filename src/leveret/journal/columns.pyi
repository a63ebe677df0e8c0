from collections.abc import Callable
from mmap import mmap

MOVED: int
SPARED: int
KINDS: dict[int, str]

class Columns:
    @property
    def rows(self) -> int: ...
    @property
    def definitions(self) -> list[tuple[int, bytes]]: ...
    @property
    def queues_seen(self) -> set[int]: ...
    @property
    def consumers_seen(self) -> set[int]: ...
    def __init__(
        self,
        data: bytes | memoryview | mmap,
        name: str,
        offset: int,
        end: int,
        salt: int,
        *,
        open_frame: Callable[[bytes, bytes], bytes] | None = None,
        queues: bytes | bytearray | None = None,
        since_ms: int = 0,
        until_ms: int = ...,
        content: bool = False,
        moved: bool = True,
        survey: bool = False,
    ) -> None: ...
    def fill(self, rows_max: int) -> bool: ...
    def take(self) -> dict[str, bytes]: ...
