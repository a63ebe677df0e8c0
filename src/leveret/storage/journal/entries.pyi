from leveret.core.ports import JournaledState

class BatchHead:
    seq: int
    when_ms: int
    synced: int
    end: int
    body_len: int
    index_len: int
    salt: int
    flags: int

def read_head(data: bytes | bytearray | memoryview, offset: int, salt: int) -> BatchHead | None: ...

class Replay:
    def __init__(self, state: JournaledState, placed: dict[int, int]) -> None: ...
    entries: int
    placed: dict[int, int]
    def batch(self, data: bytes | memoryview, start: int, head: BatchHead, segment: int, offset: int) -> None: ...
