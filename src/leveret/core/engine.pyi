from leveret.core.ports import Journal, State
from leveret.core.queue import Queue
from leveret.core.timers import Timers
from leveret.core.tracing import Tracer

class Engine(State):
    tracer: Tracer | None
    journal: Journal
    timers: Timers
    now_ms: int
    last_seq: int
    last_lease: int
    dirty: list[Queue]
    consumer_ids: dict[str, int]
    def __init__(self, journal: Journal) -> None: ...
    def tick(self, now_ms: int) -> bool: ...
    @property
    def next_deadline_ms(self) -> int | None: ...
    blobs: dict[bytes, int]
    released: list[bytes]
    def take_released(self) -> list[bytes]: ...
    def take_dirty(self) -> list[Queue]: ...
    def consumer_number(self, name: str) -> int: ...
    def define_consumer(self, name: str, number: int) -> None: ...
