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
    seq: int
    deliveries: int
    priority: int
    enqueued_ms: int
    expiry_ms: int
    size: int
    message: Message
