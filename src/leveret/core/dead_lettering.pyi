from collections.abc import Callable

from leveret.core.deadletter import Outbox
from leveret.core.engine import Engine, QueueCallbacks
from leveret.core.held import Held
from leveret.core.message import Message
from leveret.core.publish import Publisher
from leveret.core.queue import Queue
from leveret.core.topology import Topology

RETRY_MS: int
RETRY_SOON_MS: int

class DeadLetters:
    engine: Engine
    publisher: Publisher
    outbox: Outbox | None
    held: dict[Held, set[int]]
    def __init__(self, publisher: Publisher, topology: Topology) -> None: ...
    def dead_letter(
        self, queue: Queue, message: Message, reason: int, deliveries: int = 0, reached: set[int] | None = None
    ) -> bool: ...
    def find_held(self, queues: dict[int, Queue]) -> None: ...
    def retry_soon(self) -> None: ...

class Callbacks(QueueCallbacks):
    def __init__(self, dead_letters: DeadLetters, delete_unused: Callable[[Queue], None]) -> None: ...
