"""The x-random exchange: one of the bound destinations, whichever, for each message."""

from collections.abc import Iterable
from typing import Any

from leveret.core.exchanges.base import Arguments, Exchange
from leveret.core.exchanges.hashing import stable_hash

_COUNT_BYTES = 8


class RandomExchange(Exchange):
    """Ignores the routing key. The hash of a count stands for chance, so that a run can be repeated."""

    cacheable = False

    def __init__(self, *declaration: Any, **named: Any) -> None:
        """Declare without bindings."""
        super().__init__(*declaration, **named)
        self._count = stable_hash(self.name.encode("utf-8", "surrogatepass")) >> 1

    def matches(self, routing_key: str, headers: Arguments | None = None, properties: object = None) -> Iterable[Any]:
        """One destination."""
        bindings = list(self.bindings.values())
        if not bindings:
            return ()
        self._count += 1
        return (bindings[stable_hash(self._count.to_bytes(_COUNT_BYTES, "big")) % len(bindings)].destination,)
