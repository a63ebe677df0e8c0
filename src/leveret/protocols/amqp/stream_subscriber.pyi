from collections.abc import Sequence

from leveret.core.streams import Cursor
from leveret.protocols.amqp.subscriber import Subscriber
from leveret.protocols.amqp.traffic import Traffic

class StreamSubscriber(Subscriber):
    cursors: list[Cursor]
    def __init__(
        self,
        channel: Traffic,
        tag: str,
        cursors: Sequence[Cursor],
        *,
        partitioned: bool = False,
        prefetch: int = 0,
        exclusive: bool = False,
        name: str | None = None,
    ) -> None: ...
    @property
    def offset(self) -> int: ...
    def close(self) -> None: ...
