from dataclasses import dataclass

from leveret.core.message import Message
from leveret.core.ports import Journal, JournaledState

@dataclass
class ReplayedMessage:
    seq: int
    enqueued_ms: int
    expiry_ms: int
    due_ms: int
    group: int
    segment: int
    offset: int
    size: int
    deliveries: int
    priority: int
    flags: int

class PlainState(JournaledState):
    seq: int
    def __init__(self, journal: Journal) -> None: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def queues(self) -> dict[int, dict[int, ReplayedMessage]]: ...
    @property
    def definitions(self) -> dict[tuple[int, bytes], int]: ...
    @property
    def dedup(self) -> dict[tuple[int, bytes], tuple[int, int, int]]: ...
    def publish(
        self,
        queues: list[int],
        route: bytes,
        content: bytes,
        header_len: int = 0,
        priority: int = 0,
        flags: int = 1,
        expiry_ms: int = 0,
        due_ms: int = 0,
        group: int = 0,
        now_ms: int = 0,
    ) -> int: ...
    def deliver(self, queue: int, seq: int, at_ms: int = 0, consumer: int = 0) -> None: ...
    def give_back(self, queue: int, seq: int, how: int = 0, due_ms: int = 0, held_ms: int = 0) -> None: ...
    def settle(self, queue: int, seq: int, how: int = 0, at_ms: int = 0, held_ms: int = 0) -> None: ...
    def purge(self, queue: int, keep: list[int]) -> None: ...
    def define(self, what: int, payload: bytes) -> None: ...
    def deduplicate(self, queue: int, digest: bytes, seq: int, at_ms: int) -> None: ...
    def read(self, queue: int, seq: int) -> Message: ...
    def contents(self) -> dict[int, dict[int, tuple[int, ...]]]: ...
