from typing import Any

from leveret.core.engine import Engine
from leveret.core.queue import Queue

def group_key(group: str) -> int: ...
def group_of(headers: dict[str, Any]) -> int: ...
def route_of(exchange: str, routing_key: str) -> bytes: ...

class Publisher:
    engine: Engine
    def __init__(self, engine: Engine) -> None: ...
    def send(
        self,
        queue: Queue,
        content: bytes,
        header_len: int,
        *,
        priority: int = 0,
        persistent: bool = True,
        expiry_ms: int = 0,
        due_ms: int = 0,
        group: int = 0,
        key: bytes | None = None,
    ) -> int: ...
    def send_many(
        self,
        queue: Queue,
        header: bytes,
        bodies: list[bytes],
        *,
        priority: int = 0,
        persistent: bool = True,
        expiry_ms: int = 0,
        due_ms: int = 0,
        group: int = 0,
    ) -> list[int]: ...
    def publish(
        self,
        queues: list[Queue],
        route: bytes,
        content: bytes,
        header_len: int,
        *,
        priority: int = 0,
        persistent: bool = True,
        blob: bool = False,
        expiry_ms: int = 0,
        due_ms: int = 0,
        group: int = 0,
        key: bytes | None = None,
    ) -> int: ...
