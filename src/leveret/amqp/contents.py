"""Content that is not delivered as it lies: large bodies are elsewhere, quorum queues tell how often it came back."""

from dataclasses import replace

from leveret.core.held import Held
from leveret.core.message import Message
from leveret.core.properties import content
from leveret.core.tables import Long

DELIVERY_COUNT = "x-delivery-count"
ACQUIRED_COUNT = "x-acquired-count"  # of RabbitMQ 4.3, which counts there what it does not hold against a message


def delivered_content(held: Held, message: Message, body: bytes) -> tuple[bytes, int]:
    """Properties and body as the consumer gets them, and the length of the first."""
    properties = message.properties
    if held.deliveries > 1 and held.queue.is_quorum:
        before = Long(held.deliveries - 1)
        headers = {**(properties.headers or {}), DELIVERY_COUNT: before, ACQUIRED_COUNT: before}
        properties = replace(properties, headers=headers)
    return content(properties, body)
