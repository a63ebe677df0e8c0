"""Content that is not delivered as it lies: quorum queues tell how often a message came back."""

from dataclasses import replace

from leveret.core.held import Held
from leveret.core.message import Message
from leveret.core.properties import content

DELIVERY_COUNT = "x-delivery-count"


def delivered_content(held: Held, message: Message) -> tuple[bytes, int]:
    """Properties and body as the consumer gets them, and the length of the first."""
    headers = {**(message.properties.headers or {}), DELIVERY_COUNT: held.deliveries - 1}
    return content(replace(message.properties, headers=headers), message.body)
