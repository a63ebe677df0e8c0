"""The x-local-random exchange of RabbitMQ 4: one of the bound classic queues of this node, by chance, for each message.

It avoids the hop to another node: a message is unroutable when no bound queue is on this node.
"""

from collections.abc import Callable
from typing import Any

from leveret.core.errors import PreconditionFailed
from leveret.core.exchanges.base import Arguments, Exchange
from leveret.core.exchanges.random import RandomExchange

CLASSIC = "classic"


class LocalRandomExchange(RandomExchange):
    """Ignores the routing key; `is_local` tells which queues are on this node."""

    is_local: Callable[[Any], bool]

    def candidates(self) -> list[Any]:
        """The bound queues of this node."""
        return [queue for queue in super().candidates() if self.is_local(queue)]

    def check_binding(self, destination: Any, key: str, arguments: Arguments) -> None:
        """Refuse what RabbitMQ refuses, in its words: a binding key, an exchange, a queue that is replicated."""
        if key:
            raise PreconditionFailed(f"Non empty binding '{key}' key not permitted")
        if isinstance(destination, Exchange):
            raise PreconditionFailed("Destination not found")
        queue_type = destination.policy.queue_type
        if queue_type != CLASSIC:
            raise PreconditionFailed(f"Queue type rabbit_{queue_type}_queue not valid for this exchange type")
