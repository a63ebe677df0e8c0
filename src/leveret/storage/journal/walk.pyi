from collections.abc import Callable
from mmap import mmap

class Survey:
    @property
    def start(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def first_ms(self) -> int: ...
    @property
    def last_ms(self) -> int: ...
    @property
    def queues(self) -> set[int]: ...
    @property
    def consumers(self) -> set[int]: ...
    @property
    def definitions(self) -> list[tuple[int, bytes]]: ...
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
