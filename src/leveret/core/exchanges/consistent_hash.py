"""The x-consistent-hash exchange: each message goes to one destination, in proportion to the weights.

The binding key is the weight. Rendezvous hashing: every destination draws a number from (itself, the hashed value), the
best weighted draw wins. Adding or removing a destination moves only the messages that it gains or loses, weights are
exact, and there is no ring of points whose size a client could choose.
"""

from collections.abc import Iterable
from math import log
from typing import Any

from leveret.core.errors import InvalidArgument
from leveret.core.exchanges.base import Arguments, Binding, Exchange, destination_type
from leveret.core.exchanges.hashing import HASH_BITS, bytes_of, stable_hash

WEIGHT_MAX = 1_000_000  # sums of weights stay exact in a float
_DRAW_BITS = 52  # (draw + 0.5) / 2**52 is exact and strictly between 0 and 1
_PROPERTIES = ("message_id", "correlation_id", "timestamp")


class ConsistentHashExchange(Exchange):
    """Hashes the routing key, or the header or property that its arguments name."""

    def __init__(self, *declaration: Any, **named: Any) -> None:
        """Declare without bindings; refuse arguments that name nothing to hash."""
        super().__init__(*declaration, **named)
        self._header = self.arguments.get("hash-header")
        self._property = self.arguments.get("hash-property")
        self._weights: dict[Any, int] = {}
        self._seeds: dict[Any, bytes] = {}
        self.cacheable = self._header is None and self._property is None
        if self._header is not None and self._property is not None:
            raise InvalidArgument("hash-header and hash-property are mutually exclusive")
        if self._header is not None and not isinstance(self._header, str):
            raise InvalidArgument("hash-header names a header: give a string")
        if self._property is not None and self._property not in _PROPERTIES:
            raise InvalidArgument(f"Unsupported property: {self._property}")

    def matches(self, routing_key: str, headers: Arguments | None = None, properties: object = None) -> Iterable[Any]:
        """The one destination that the message's hash chooses."""
        if not self._weights:
            return ()
        data = bytes_of(self._hashed(routing_key, headers, properties))
        return (max(self._weights, key=lambda destination: self._draw(destination, data)),)

    def check_binding(self, destination: Any, key: str, arguments: Arguments) -> None:
        """Refuse a binding key that is no weight."""
        if not (key.isascii() and key.removeprefix("-").isdigit()):
            raise InvalidArgument(f'The binding key must be an integer: <<"{key}">>')
        if len(key) > len(str(WEIGHT_MAX)) or int(key) > WEIGHT_MAX:
            raise InvalidArgument(f"the binding key is a weight from 1 to {WEIGHT_MAX}, not '{key}'")
        if int(key) < 1:
            raise InvalidArgument("The binding key must be greater than 0")

    def added(self, binding: Binding) -> None:
        """Add to the destination's weight."""
        destination = binding.destination
        self._weights[destination] = self._weights.get(destination, 0) + int(binding.key)
        self._seeds[destination] = _seed(destination)

    def removed(self, binding: Binding) -> None:
        """Take from the destination's weight."""
        destination = binding.destination
        self._weights[destination] -= int(binding.key)
        if not self._weights[destination]:
            del self._weights[destination], self._seeds[destination]

    def _hashed(self, routing_key: str, headers: Arguments | None, properties: object) -> object:
        """The value that the arguments choose."""
        if self._header is not None:
            return (headers or {}).get(self._header)
        if self._property is not None:
            return getattr(properties, self._property, None)
        return routing_key

    def _draw(self, destination: Any, data: bytes) -> float:
        """The destination's weighted draw for the hashed value."""
        draw = stable_hash(data, self._seeds[destination]) >> (HASH_BITS - _DRAW_BITS)
        return self._weights[destination] / -log((draw + 0.5) / 2**_DRAW_BITS)


def _seed(destination: Any) -> bytes:
    """What makes the draws of two destinations independent; short enough to be a hash key."""
    return stable_hash(f"{destination_type(destination)}:{destination.name}".encode()).to_bytes(HASH_BITS // 8, "big")
