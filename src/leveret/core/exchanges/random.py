"""The x-random exchange: one of the bound destinations, whichever, for each message."""

from collections.abc import Iterable
from random import Random
from typing import Any

from leveret.core.exchanges.base import Arguments, Exchange


class RandomExchange(Exchange):
    """Ignores the routing key. Chance begins with the name, so that a run can be repeated."""

    cacheable = False

    def __init__(self, *declaration: Any, **named: Any) -> None:
        """Declare without bindings."""
        super().__init__(*declaration, **named)
        self._chance = Random(self.name)

    def matches(self, routing_key: str, headers: Arguments | None = None, properties: object = None) -> Iterable[Any]:
        """One destination."""
        bindings = list(self.bindings.values())
        return (self._chance.choice(bindings).destination,) if bindings else ()
