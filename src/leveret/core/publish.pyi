from typing import Any

from leveret.core.message import Message
from leveret.core.ports import Journal
from leveret.core.queue import Queue
from leveret.core.restore import Restorable

ORIGIN: str
RECEIVED: str

def group_key(group: str) -> int: ...
def group_of(headers: dict[str, Any]) -> int: ...
def received_before(headers: dict[str, Any]) -> int: ...
def route_of(exchange: str, routing_key: str) -> bytes: ...

RETRY_MS: int
RETRY_SOON_MS: int

class Publisher(Restorable):
    tag: int
    def __init__(self, journal: Journal, tag: int = 0) -> None: ...
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
    def dead_letter(
        self, queue: Queue, message: Message, reason: int, deliveries: int = 0, reached: set[int] | None = None
    ) -> bool: ...
    def find_dying(self) -> None: ...
    def retry_soon(self) -> None: ...
