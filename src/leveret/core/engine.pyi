from collections.abc import Callable

from leveret.core.ports import Journal
from leveret.core.queue import Queue
from leveret.core.timers import Timers
from leveret.core.tracing import Tracer

class QueueCallbacks: ...

class Engine:
    callbacks: QueueCallbacks
    name_consumer: Callable[[str, int], None]
    tracer: Tracer | None
    journal: Journal
    timers: Timers
    tag: int
    now_ms: int
    last_seq: int
    dirty: list[Queue]
    consumer_ids: dict[str, int]
    def __init__(self, journal: Journal, tag: int = 0) -> None: ...
    def refused(self, how: int, size: int, exchange: str | None = None, queue: int = 0) -> int: ...
    def tick(self, now_ms: int) -> bool: ...
    next_deadline_ms: int | None
    blobs: dict[bytes, int]
    released: list[bytes]
    def take_released(self) -> list[bytes]: ...
    def take_dirty(self) -> list[Queue]: ...
