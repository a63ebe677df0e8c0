from leveret.core.engine import Engine
from leveret.core.queue import Queue

class Restorable(Engine):
    queues: dict[int, Queue]
    undefined: dict[int, Queue]
    def live_segments(self) -> dict[int, int]: ...
    def restore_numbers(self, last_seq: int, now_ms: int) -> None: ...

def waiting_numbers(queue: Queue) -> list[int]: ...
