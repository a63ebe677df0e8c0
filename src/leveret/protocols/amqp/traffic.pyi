from collections.abc import Collection
from typing import Any

from leveret.core.broker import Broker
from leveret.core.consumer import Consumer
from leveret.core.held import Held
from leveret.core.publish import Publisher
from leveret.core.queue import Queue
from leveret.core.switch import Switch
from leveret.protocols.amqp.unacked import Unacked
from leveret.wire.frames import Outlet

class ChannelRoute:
    wire: bytes
    queues: list[Queue]
    plain: bool
    def __init__(self, queues: list[Queue], plain: bool) -> None: ...

class ChannelTraffic:
    outlet: Outlet
    core: Broker
    publisher: Publisher
    number: int
    message_bytes_max: int
    large_bytes: int
    routes: dict[bytes, ChannelRoute]
    subscribers: dict[str, Any]
    unacked: Unacked
    last_tag: int
    deaf: bool
    transacting: bool
    confirming: bool
    published: int
    @property
    def confirmed(self) -> int: ...
    refused: list[int]
    prefetch: int
    pushed: int
    publishes: int
    @property
    def acks(self) -> int: ...
    @property
    def gets(self) -> int: ...
    @property
    def redeliveries(self) -> int: ...
    dropped: int
    returned: int
    empty_gets: int
    firehose: Switch
    def __init__(
        self,
        outlet: Outlet,
        core: Broker,
        number: int,
        routes: dict[bytes, ChannelRoute],
        message_bytes_max: int,
        firehose: Switch,
    ) -> None: ...
    def confirm(self, through: int) -> None: ...
    def settle_now(self, tag: int, how: int) -> None: ...
    def requeue_all(self, keep: Collection[int] = ...) -> None: ...
    def resume(self) -> None: ...
    @property
    def congested(self) -> bool: ...
    def next_tag(self) -> int: ...
    def get(self, queue: Queue, no_ack: bool) -> bool: ...

def take_up(channel: ChannelTraffic, tag: int, held: Held) -> None: ...
def adopt(channel: ChannelTraffic, consumer: Consumer, tags: list[int]) -> None: ...
