from typing import Any

from leveret.cluster.proxy.confirms import Confirms, Sent, Verdict
from leveret.cluster.proxy.connection import ProxyConnection
from leveret.cluster.proxy.tags import MessageNames, Tags
from leveret.core.queue import Queue
from leveret.protocols.amqp.session import FrameSession
from leveret.protocols.amqp.traffic import ChannelRoute, ChannelTraffic
from leveret.wire.frames import FrameReader, FrameWriter

class ShardConnectionBase:
    connection: ProxyConnection
    reader: FrameReader
    writer: FrameWriter
    shard_channels: dict[int, Any]
    closing: dict[int, int]
    unsure: MessageNames
    last_mark: int
    noted: bool
    direct: FrameSession | None
    entered: bool
    def __init__(self, connection: ProxyConnection) -> None: ...
    def begin(self) -> None: ...
    def method(self, number: int, payload: bytes) -> None: ...
    def content(self, number: int, method: bytes, content: bytes, header_len: int) -> None: ...
    def note(self) -> None: ...
    def receive(self, data: bytes) -> None: ...
    def receive_from(self, shard: FrameSession) -> None: ...

class ShardChannelBase:
    shard_connection: Any
    number: int
    names: MessageNames
    sent: Sent
    consumers: dict[str, Any]
    def __init__(self, shard_connection: ShardConnectionBase, number: int) -> None: ...

class ProxyRoute(ChannelRoute):
    def __init__(self, queues: list[Queue], plain: bool, shard_ids: list[str]) -> None: ...

class Relay(ChannelTraffic):
    tags: Tags
    confirms: Confirms
    shard_channels: dict[str, Any]
    partial: bool
    def forget_way(self) -> None: ...
    def tell(self, verdicts: list[Verdict]) -> None: ...
    def deliver_late(self, shard_channel: ShardChannelBase, method: bytes, content: bytes, header_len: int) -> None: ...
    def got(self, shard_channel: ShardChannelBase, inner: int, redelivered: bool, no_ack: bool) -> int: ...
