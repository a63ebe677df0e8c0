"""The fanout exchange: every binding matches every message."""

from collections.abc import Iterable
from typing import Any

from leveret.core.exchanges.base import Arguments, Exchange


class FanoutExchange(Exchange):
    """Copies to all."""

    def matches(self, routing_key: str, headers: Arguments | None = None, properties: object = None) -> Iterable[Any]:
        """All destinations."""
        return [binding.destination for binding in self.bindings.values()]
