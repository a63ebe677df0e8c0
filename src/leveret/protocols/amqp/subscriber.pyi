from leveret.core.consumer import Consumer
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
