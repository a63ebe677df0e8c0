from collections.abc import Iterable

from leveret.core.engine import Engine
from leveret.core.histogram import Histogram
from leveret.core.queue import Queue

COUNTERS: tuple[str, ...]

def column(queues: list[Queue], name: str) -> list[int]: ...
def published_by_priority(queue: Queue) -> dict[int, int]: ...
def times(queue: Queue) -> tuple[Histogram, Histogram] | None: ...
def oldest_ms(queue: Queue) -> int | None: ...

class Counted:
    since_ms: int
    def begin(self, engine: Engine) -> int: ...
    def note(self, engine: Engine, queues: Iterable[Queue]) -> None: ...
    def note_queue(self, engine: Engine, queue: Queue) -> None: ...

class Tally:
    queues: int
    ready: int
    ready_bytes: int
    leased: int
    scheduled: int
    backing_off: int
    consumers: int
    waiting: Histogram
    processing: Histogram
    def add(self, queues: list[Queue]) -> None: ...
    def keep(self, queue: Queue) -> None: ...
    def merge(self, other: Tally) -> None: ...
    counts: dict[str, int]
    published_by_priority: dict[int, int]
    oldest_ms: int | None
    by_priority: dict[int, int]
