"""The x-random exchange: one of the bound destinations, whichever, for each message."""

from collections.abc import Iterable
from typing import Any

from leveret.core.exchanges.base import Arguments, Exchange
from leveret.core.exchanges.hashing import bytes_of, stable_hash

COUNT_BYTES = 8


class RandomExchange(Exchange):
    """Ignores the routing key. Chance is a hash of name and count, so that a run can be repeated."""

    cacheable = False

    def __init__(self, *declaration: Any, **named: Any) -> None:
        super().__init__(*declaration, **named)
        self._count = 0

    def matches(self, routing_key: str, headers: Arguments | None = None, properties: object = None) -> Iterable[Any]:
        """One destination."""
        candidates = self.candidates()
        if not candidates:
            return ()
        self._count += 1
        drawn = stable_hash(bytes_of(self.name) + self._count.to_bytes(COUNT_BYTES, "big"))
        return (candidates[drawn % len(candidates)],)

    def candidates(self) -> list[Any]:
        """The destinations to choose from."""
        return [binding.destination for binding in self.bindings.values()]
