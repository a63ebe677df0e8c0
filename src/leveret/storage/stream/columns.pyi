from collections.abc import Collection

from leveret.storage.stream.blocks import BlockHead

TEXTS: tuple[str, ...]

def block_at(data: bytes, at: int) -> BlockHead | None: ...

class BlockColumns:
    rows: int
    size_bytes: int
    def __init__(self, first: int, end: int, wanted: Collection[str]) -> None: ...
    def add(self, data: bytes, start: int, end: int, first: int, count: int) -> bool: ...
    def take(self) -> dict[str, bytes]: ...
