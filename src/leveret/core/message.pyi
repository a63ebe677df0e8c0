from leveret.core.properties import Properties

class Message:
    route: bytes
    content: bytes
    header_len: int
    seq: int
    enqueued_ms: int
    expiry_ms: int
    due_ms: int
    group: int
    priority: int
    flags: int
    references: int
    header: bytes
    body: bytes
    exchange: str
    routing_key: str
    properties: Properties

def restored(
    route: bytes,
    content: bytes,
    header_len: int,
    priority: int = 0,
    flags: int = 1,
    expiry_ms: int = 0,
    due_ms: int = 0,
    group: int = 0,
    seq: int = 0,
    enqueued_ms: int = 0,
) -> Message: ...
