from collections.abc import Sequence

from leveret.core.consumer import Consumer
from leveret.core.streams import StreamCursor
from leveret.protocols.amqp.traffic import ChannelTraffic

class Subscriber(Consumer):
    channel: ChannelTraffic
    timeout_ms: int
    def __init__(
        self,
        channel: ChannelTraffic,
        tag: str,
        *,
        prefetch: int = 0,
        priority: int = 0,
        exclusive: bool = False,
        no_ack: bool = False,
        name: str | None = None,
        timeout_ms: int = 0,
    ) -> None: ...

class StreamSubscriber(Subscriber):
    cursors: list[StreamCursor]
    def __init__(
        self,
        channel: ChannelTraffic,
        tag: str,
        cursors: Sequence[StreamCursor],
        *,
        partitioned: bool = False,
        prefetch: int = 0,
        exclusive: bool = False,
        name: str | None = None,
    ) -> None: ...
    @property
    def offset(self) -> int: ...
    def close(self) -> None: ...
