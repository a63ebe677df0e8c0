from collections.abc import Mapping
from typing import Any

from leveret.core.engine import Engine
from leveret.core.policy import QueuePolicy
from leveret.core.queue import Queue

class Restorable(Engine):
    queues: dict[int, Queue]
    undefined: dict[int, Queue]
    def count_blobs(self) -> dict[bytes, int]: ...
    def adopt(
        self,
        queue: Queue,
        vhost: str,
        name: str,
        policy: QueuePolicy,
        arguments: Mapping[str, Any] | None,
        auto_delete: bool,
    ) -> None: ...
    def live_segments(self) -> dict[int, int]: ...
    def restore_numbers(self, last_seq: int, now_ms: int) -> None: ...

def segments_of(queue: Queue) -> dict[int, int]: ...
def waiting_numbers(queue: Queue) -> list[int]: ...
