from datetime import datetime
from typing import Any, NoReturn

from leveret.core.held import Held
from leveret.core.message import Message as Content
from leveret.core.properties import Properties
from leveret.core.queue import Queue as CoreQueue
from leveret.runtime.managed import ManagedQueue
from leveret.runtime.queue import RuntimeQueue

GROUP: str
DEDUP: str

class Peeked:
    source: ManagedQueue
    content: Content
    seq: int
    deliveries: int
    priority: int
    state: str
    def __init__(self, *args: object, **kwargs: object) -> NoReturn: ...
    id: str
    data: bytes
    pointer: bytes | None
    body: Any
    content_type: str | None
    properties: Properties
    headers: dict[str, Any]
    group: str | None
    dedup_id: str | None
    def header(self, name: str) -> str | None: ...
    exchange: str
    routing_key: str
    enqueued_at: datetime
    due_at: datetime | None

class Message(Peeked):
    source: RuntimeQueue
    held: Held
    lease: int
    received_ms: int
    leased: bool
    redelivered: bool
    received_at: datetime
    visible_until: datetime | None
    receipt: str
    def ack(self) -> None: ...
    def nack(self, delay: float | None = None) -> None: ...
    def extend(self, seconds: float) -> None: ...
    def reject(self) -> None: ...
    async def aack(self) -> None: ...
    async def anack(self, delay: float | None = None) -> None: ...
    async def aextend(self, seconds: float) -> None: ...
    async def areject(self) -> None: ...

def time_of(ms: int) -> datetime: ...
def wrap(source: RuntimeQueue, taken: list[Held]) -> list[Message]: ...
def look(source: ManagedQueue, held: Held) -> Peeked: ...
def ids(tag: int, numbers: list[int]) -> list[str | None]: ...
def all_bytes(bodies: list[Any], size_max: int) -> bool: ...
def any_stored(messages: list[Message]) -> bool: ...
def ack_all(queue: CoreQueue, messages: list[Message]) -> int: ...
