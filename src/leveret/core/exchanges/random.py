"""The exchanges x-random and x-local-random: one of the bound destinations, by chance, for each message."""

from collections.abc import Callable, Iterable
from typing import Any

from leveret.core.errors import PreconditionFailed
from leveret.core.exchanges.base import Arguments, Exchange
from leveret.core.exchanges.hashing import bytes_of, stable_hash

COUNT_BYTES = 8
CLASSIC = "classic"


class RandomExchange(Exchange):
    """Ignores the routing key. Chance is a hash of name and count, so that a run can be repeated."""

    cacheable = False

    def __init__(self, *declaration: Any, **named: Any) -> None:
        super().__init__(*declaration, **named)
        self._count = 0

    def matches(self, routing_key: str, headers: Arguments | None = None, properties: object = None) -> Iterable[Any]:
        candidates = self.candidates()
        if not candidates:
            return ()
        self._count += 1
        drawn = stable_hash(bytes_of(self.name) + self._count.to_bytes(COUNT_BYTES, "big"))
        return (candidates[drawn % len(candidates)],)

    def candidates(self) -> list[Any]:
        return [binding.destination for binding in self.bindings.values()]


class LocalRandomExchange(RandomExchange):
    """The x-local-random exchange of RabbitMQ 4: one of the bound classic queues of this node; `is_local` tells which.

    It avoids the hop to another node: a message is unroutable when no bound queue is on this node.
    """

    is_local: Callable[[Any], bool]

    def candidates(self) -> list[Any]:
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
