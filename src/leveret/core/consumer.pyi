from leveret.core.held import Held

class Consumer:
    tag: str
    name: str
    queue: object
    id: int
    priority: int
    prefetch: int
    unacked: int
    active_ms: int
    exclusive: bool
    no_ack: bool
    blocked: bool
    def __init__(
        self,
        tag: str,
        *,
        prefetch: int = 0,
        priority: int = 0,
        exclusive: bool = False,
        no_ack: bool = False,
        name: str | None = None,
    ) -> None: ...
    def deliver(self, held: Held) -> None: ...
    def cancelled(self) -> None: ...
