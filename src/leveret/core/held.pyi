from leveret.core.message import Message
from leveret.core.queue import Queue

class Held:
    queue: Queue
    when_ms: int
    ready_ms: int
    group: int
    lease: int
    delivered_ms: int
    first_delivered_ms: int
    consumer: object
    state: int
    @property
    def seq(self) -> int: ...
    @property
    def deliveries(self) -> int: ...
    @property
    def priority(self) -> int: ...
    @property
    def enqueued_ms(self) -> int: ...
    @property
    def expiry_ms(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def message(self) -> Message: ...
