from collections.abc import Collection
from typing import final

MAGIC: bytes
HEAD_BYTES: int
RECORD_BYTES_MAX: int
BLOCK_BYTES_MAX: int

class Block:
    first: int
    count: int
    first_ms: int
    last_ms: int
    producers: dict[bytes, int] | None
    def __init__(self, first: int) -> None: ...
    @property
    def end(self) -> int: ...
    @property
    def bytes(self) -> int: ...
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
    @property
    def header(self) -> bytes: ...
    @property
    def body(self) -> bytes: ...

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
    @property
    def names_producers(self) -> bool: ...
    @property
    def is_lost(self) -> bool: ...
    @property
    def is_encrypted(self) -> bool: ...
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
