from collections.abc import Collection
from typing import final

from leveret.storage.stream.index import Producers

MAGIC: bytes
HEAD_BYTES: int
RECORD_BYTES_MAX: int
BLOCK_BYTES_MAX: int
TEXTS: tuple[str, ...]

class Block:
    first: int
    count: int
    first_ms: int
    last_ms: int
    producers: dict[bytes, int] | None
    def __init__(self, first: int) -> None: ...
    end: int
    bytes: int
    def finish(self, salt: int, synced: int, sealing_bytes: int = 0) -> memoryview: ...

@final
class StoredRecord:
    offset: int
    timestamp_ms: int
    sequence: int
    header_len: int
    route: bytes
    content: bytes
    filter_value: bytes
    producer: bytes
    header: bytes
    body: bytes

class BlockHead:
    first: int
    count: int
    first_ms: int
    last_ms: int
    synced: int
    flags: int
    filters: int
    start: int
    end: int
    names_producers: bool
    is_lost: bool
    is_encrypted: bool
    def alone(self, size: int) -> BlockHead: ...
    def may_match(self, wanted: Collection[bytes], match_unfiltered: bool) -> bool: ...

def block_bytes(data: bytes, at: int) -> int: ...
def read_head(data: bytes, at: int, salt: int) -> BlockHead | None: ...
def lost_block(first: int, count: int, at_ms: int, salt: int) -> bytes: ...
def records_in(
    data: bytes,
    head: BlockHead,
    offset: int = 0,
    timestamp_ms: int = 0,
    wanted: Collection[bytes] | None = None,
    match_unfiltered: bool = False,
) -> list[StoredRecord] | None: ...
def block_at(data: bytes, at: int) -> BlockHead | None: ...

class Appender:
    refusal: Exception | None
    def __init__(self, next_offset: int, last_ms: int, block_bytes: int, producers: Producers) -> None: ...
    next_offset: int
    last_ms: int
    unwritten_bytes: int
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

class BlockColumns:
    rows: int
    size_bytes: int
    def __init__(self, first: int, end: int, wanted: Collection[str]) -> None: ...
    def add(self, data: bytes, start: int, end: int, first: int, count: int) -> bool: ...
    def take(self) -> dict[str, bytes]: ...
