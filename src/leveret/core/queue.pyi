from collections.abc import Callable, Mapping
from typing import Any

from leveret.core.consumer import Consumer
from leveret.core.dedup import Dedup
from leveret.core.engine import Engine
from leveret.core.held import Held
from leveret.core.policy import QueuePolicy
from leveret.core.streams import Recorder

class Queue:
    engine: Engine
    id: int
    name: str
    vhost: str
    durable: bool
    auto_delete: bool
    paused: bool
    deleted: bool
    owner: object
    arguments: Mapping[str, Any] | None
    policy: QueuePolicy
    dedup: Dedup
    route: bytes
    segment: int
    consumers: list[Consumer] | None
    active: Consumer | None
    watched: bool
    created_ms: int
    used_ms: int
    leased: int
    scheduled: int
    max_priority: int
    is_quorum: bool
    dlx: int
    dlx_bytes: int
    recorder: Recorder | None
    def __init__(
        self,
        engine: Engine,
        id: int,
        vhost: str,
        name: str,
        policy: QueuePolicy,
        arguments: Mapping[str, Any] | None = None,
        *,
        durable: bool = True,
        auto_delete: bool = False,
        owner: object = None,
    ) -> None: ...
    def change(self, arguments: Mapping[str, Any] | None, policy: QueuePolicy) -> None: ...
    def apply(self, policy: QueuePolicy) -> None: ...
    def enforce(self) -> None: ...
    def would_overflow(self, size: int) -> bool: ...
    def duplicate_of(self, key: bytes) -> int | None: ...
    def remember(self, key: bytes, seq: int, at_ms: int, segment: int) -> None: ...
    def grown(self) -> None: ...
    def take(
        self,
        count: int,
        lease_ms: int | None = None,
        consumer: object = None,
        bytes_max: int = 0,
        large_bytes: Callable[[bytes], int] | None = None,
    ) -> list[Held]: ...
    def leased_as(self, held: Held, lease: int) -> Held: ...
    def has_held(self, seq: int) -> bool: ...
    def find_lease(self, seq: int, lease: int) -> Held: ...
    def ack(self, held: Held, lease: int) -> None: ...
    def reject(self, held: Held, lease: int) -> None: ...
    def nack(self, held: Held, lease: int, delay_ms: int, how: int = 0) -> None: ...
    def extend(self, held: Held, lease: int, lease_ms: int) -> None: ...
    def renew(self, seq: int, lease: int, lease_ms: int) -> bool: ...
    def retire(self) -> None: ...
    def use(self) -> None: ...
    def pause(self, paused: bool = True) -> None: ...
    depth: int
    depth_bytes: int
    backing_off: int
    counts: dict[str, int]
