from leveret.core.held import Held
from leveret.core.queue import Queue

def claim(
    queue: Queue,
    seq: int,
    enqueued_ms: int,
    group: int,
    deliveries: int,
    priority: int,
    kept: Held | None = None,
) -> Held | None: ...
def hold_delivered(queue: Queue, count_max: int) -> list[Held]: ...
def give_up(held: Held, lease: int) -> None: ...
def gone() -> Held: ...
