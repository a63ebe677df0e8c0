"""The x-modulus-hash exchange: the routing key's hash modulo the number of destinations, which are ordered by name."""

from collections.abc import Iterable
from typing import Any

from leveret.core.exchanges.base import Arguments, Binding, Exchange, destination_type
from leveret.core.exchanges.hashing import bytes_of, stable_hash


class ModulusHashExchange(Exchange):
    """Spreads evenly; a change of the destinations moves most keys."""

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
        """Order the destinations anew when next asked."""
        self._ordered = None
