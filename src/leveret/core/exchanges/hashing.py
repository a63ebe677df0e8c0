"""Exchanges that choose by a hash: x-consistent-hash and x-modulus-hash.

The hashes are the same in every process and on every machine, which Python's own are not.
"""

from collections.abc import Iterable
from hashlib import blake2b
from math import log
from typing import Any

from leveret.core.errors import InvalidArgument
from leveret.core.exchanges.base import Arguments, Binding, Exchange, destination_type
from leveret.core.jsonable import canonical

HASH_BITS = 64
WEIGHT_MAX = 1_000_000  # sums of weights stay exact in a float
_DRAW_BITS = 52  # (draw + 0.5) / 2**52 is exact and strictly between 0 and 1
_PROPERTIES = ("message_id", "correlation_id", "timestamp")


def stable_hash(data: bytes, seed: bytes = b"") -> int:
    """A well spread 64-bit number."""
    return int.from_bytes(blake2b(data, digest_size=HASH_BITS // 8, key=seed).digest(), "big")


def bytes_of(value: object) -> bytes:
    """What of a routing key, header or property is hashed."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return b"" if value is None else canonical(value).encode("ascii")


class ConsistentHashExchange(Exchange):
    """Each message goes to one destination, in proportion to the weights, which are the binding keys.

    It hashes the routing key, or the header or property that its arguments name. Rendezvous hashing: every destination
    draws a number from (itself, the hashed value), the best weighted draw wins. Adding or removing a destination moves
    only the messages that it gains or loses, weights are exact, and there is no ring of points whose size a client
    could choose.
    """

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
        destination = binding.destination
        self._weights[destination] = self._weights.get(destination, 0) + int(binding.key)
        self._seeds[destination] = _seed(destination)

    def removed(self, binding: Binding) -> None:
        destination = binding.destination
        self._weights[destination] -= int(binding.key)
        if not self._weights[destination]:
            del self._weights[destination], self._seeds[destination]

    def _hashed(self, routing_key: str, headers: Arguments | None, properties: object) -> object:
        if self._header is not None:
            return (headers or {}).get(self._header)
        if self._property is not None:
            return getattr(properties, self._property, None)
        return routing_key

    def _draw(self, destination: Any, data: bytes) -> float:
        draw = stable_hash(data, self._seeds[destination]) >> (HASH_BITS - _DRAW_BITS)
        return self._weights[destination] / -log((draw + 0.5) / 2**_DRAW_BITS)


def _seed(destination: Any) -> bytes:
    """What makes the draws of two destinations independent; short enough to be a hash key."""
    return stable_hash(f"{destination_type(destination)}:{destination.name}".encode()).to_bytes(HASH_BITS // 8, "big")


class ModulusHashExchange(Exchange):
    """The routing key's hash modulo the number of destinations, ordered by name: it spreads evenly.

    A change of the destinations moves most keys.
    """

    def __init__(self, *declaration: Any, **named: Any) -> None:
        super().__init__(*declaration, **named)
        self._ordered: list[Any] | None = None

    def matches(self, routing_key: str, headers: Arguments | None = None, properties: object = None) -> Iterable[Any]:
        """The one destination that the routing key's hash chooses."""
        if self._ordered is None:
            distinct = {binding.destination for binding in self.bindings.values()}
            self._ordered = sorted(distinct, key=lambda each: (destination_type(each), each.name))
        if not self._ordered:
            return ()
        return (self._ordered[stable_hash(bytes_of(routing_key)) % len(self._ordered)],)

    def added(self, binding: Binding) -> None:
        """Order the destinations anew when next asked: a thousand binds in a row sort once."""
        self._ordered = None

    def removed(self, binding: Binding) -> None:
        self._ordered = None
