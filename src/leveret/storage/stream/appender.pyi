from leveret.storage.stream.blocks import Block
from leveret.storage.stream.index import Producers

class Appender:
    refusal: Exception | None
    def __init__(self, next_offset: int, last_ms: int, block_bytes: int, producers: Producers) -> None: ...
    next_offset: int
    last_ms: int
    sealed_bytes: int
    @property
    def unwritten_bytes(self) -> int: ...
    producers: Producers
    def append(
        self,
        now_ms: int,
        route: bytes,
        content: bytes,
        header_len: int = 0,
        filter_value: bytes = b"",
        producer: bytes = b"",
        sequence: int = 0,
    ) -> int | None: ...
    def oldest(self) -> Block | None: ...
    def wrote(self) -> None: ...
