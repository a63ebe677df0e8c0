"""Content that is not delivered as it lies: large bodies are elsewhere, quorum queues tell how often it came back."""

from dataclasses import replace

from leveret.core.held import Held
from leveret.core.message import Message
from leveret.core.properties import content
from leveret.core.tables import Long

DELIVERY_COUNT = "x-delivery-count"
ACQUIRED_COUNT = "x-acquired-count"  # of RabbitMQ 4.3, which counts there what it does not hold against a message
BODY_SIZE_AT = 4  # in a content header: eight bytes


def delivered_header(held: Held, message: Message, body_bytes: int) -> bytes:
    """The content header as the consumer gets it; the body, which may be large, is not copied for that."""
    properties = message.properties
    if held.deliveries > 1 and held.queue.is_quorum:
        before = Long(held.deliveries - 1)
        headers = {**(properties.headers or {}), DELIVERY_COUNT: before, ACQUIRED_COUNT: before}
        properties = replace(properties, headers=headers)
    header, _ = content(properties, b"")
    return header[:BODY_SIZE_AT] + body_bytes.to_bytes(8, "big") + header[BODY_SIZE_AT + 8 :]
