from collections.abc import Collection
from typing import Any

from leveret.amqp.outbox import Outlet
from leveret.amqp.unacked import Unacked
from leveret.core.broker import Broker
from leveret.core.held import Held
from leveret.core.message import Message
from leveret.core.publish import Publisher
from leveret.core.queue import Queue

class Route:
    wire: bytes
    queues: list[Queue]
    plain: bool
    def __init__(self, queues: list[Queue], plain: bool) -> None: ...

class Traffic:
    outlet: Outlet
    core: Broker
    number: int
    message_bytes_max: int
    large_bytes: int
    routes: dict[bytes, Route]
    subscribers: dict[str, Any]
    unacked: Unacked
    last_tag: int
    deaf: bool
    transacting: bool
    confirming: bool
    published: int
    confirmed: int
    refused: list[int]
    prefetch: int
    pushed: int
    publishes: int
    acks: int
    gets: int
    redeliveries: int
    dropped: int
    returned: int
    empty_gets: int
    def __init__(
        self, outlet: Outlet, core: Publisher, number: int, routes: dict[bytes, Route], message_bytes_max: int
    ) -> None: ...
    def find_route(self, exchange: str, routing_key: str) -> Route: ...
    def publish_slowly(
        self, exchange: str, routing_key: str, mandatory: bool, immediate: bool, content: bytes, header_len: int
    ) -> None: ...
    @property
    def unconfirmed(self) -> bool: ...
    def confirm(self, through: int) -> None: ...
    def finish(self, tag: int, multiple: bool, requeue: bool, acknowledge: bool) -> None: ...
    def settle_later(self, tag: int, multiple: bool, how: int) -> None: ...
    def requeue_all(self, keep: Collection[int] = ...) -> None: ...
    def resume(self) -> None: ...
    @property
    def congested(self) -> bool: ...
    def next_tag(self) -> int: ...
    def get(self, queue: Queue, no_ack: bool) -> bool: ...
    def subscriber_cancelled(self, subscriber: Any) -> None: ...
    def has_body(self, held: Held) -> bool: ...
    def get_later(self, held: Held, no_ack: bool) -> None: ...
    def fetch_for(self, subscriber: Any, held: Held) -> None: ...
    def fetch_records(self, cursor: Any, job: Any) -> None: ...
    def changed_content(self, held: Held, message: Message) -> tuple[bytes, int]: ...
