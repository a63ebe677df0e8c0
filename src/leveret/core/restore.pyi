from collections.abc import Callable, Mapping
from typing import Any

from leveret.core.definition_log import DefinitionLog
from leveret.core.engine import Engine
from leveret.core.policy import QueuePolicy
from leveret.core.ports import JournaledState
from leveret.core.queue import Queue

class Restorer(JournaledState):
    engine: Engine
    queues: dict[int, Queue]
    undefined: dict[int, Queue]
    definitions: DefinitionLog
    on_recovered: Callable[[], None]
    def __init__(self, engine: Engine) -> None: ...
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
    def replay_definition(self, what: int, payload: bytes, segment: int) -> None: ...
    def restore_numbers(self, last_seq: int, now_ms: int) -> None: ...
    def live_segments(self) -> dict[int, int]: ...

def segments_of(queue: Queue) -> dict[int, int]: ...
def transient(queue: Queue) -> list[tuple[int, int, int]]: ...
def drop_transient(queue: Queue) -> None: ...
def waiting_numbers(queue: Queue) -> list[int]: ...
