from collections.abc import Sequence

from leveret.core.streams import StreamCursor
from leveret.protocols.amqp.subscriber import Subscriber
from leveret.protocols.amqp.traffic import ChannelTraffic

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
