def crc32c(data: bytes | bytearray | memoryview, crc: int = 0, portable: bool = False) -> int: ...

class CommitBatch:
    seq: int
    when_ms: int
    segment: int
    offset: int
    body_len: int
    index_len: int
    event_bytes: int
    is_history: bool
    awaited_bytes: int
    entries: int
    plain_bytes: int
    def finish(self, salt: int, flags: int, synced: int) -> None: ...
    def checked(self) -> memoryview: ...
    def header(self) -> bytes: ...
    def plain(self) -> memoryview: ...
