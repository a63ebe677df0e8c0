from enum import IntEnum

from leveret.core.publish import Publisher
from leveret.core.queue import Queue
from leveret.core.streams import Author

class Texts:
    size_bytes: int
    rising: bool
    longest: int
    def __init__(self, row_group: bytes, at: int, size: int, rows: int, gapped: bool) -> None: ...
    def __getitem__(self, row: int, /) -> bytes | None: ...
    def is_utf8(self) -> bool: ...

class Numbers:
    least: int
    most: int
    def __init__(self, row_group: bytes, at: int, rows: int) -> None: ...
    def __getitem__(self, row: int, /) -> int | None: ...

class Kind(IntEnum):
    SHORT_STRING = 0
    OCTET = 1
    LONG = 2
    DIGITS = 3
    KEY = 4

class PackedField:
    def __init__(self, place: int, kind: Kind, common: bytes, column: Texts | Numbers | None) -> None: ...

class Packed:
    longest: int
    def __init__(
        self,
        bodies: Texts,
        fields: list[PackedField],
        *,
        priority: int,
        delay_ms: int | None,
        ttl_ms: int | None,
        group: int,
        priorities: Numbers | None = None,
        delays: Numbers | None = None,
        ttls: Numbers | None = None,
    ) -> None: ...
    def end_of(self, first: int, rows_max: int, bytes_max: int) -> int: ...
    def publish(self, publisher: Publisher, queue: Queue, author: Author, first: int, end: int) -> None: ...
