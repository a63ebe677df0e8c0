"""Exchanges that look at nothing but the routing key, or not even that: direct, default and fanout."""

from collections.abc import Iterable, Mapping
from typing import Any

from leveret.core.exchanges.base import Arguments, Binding, Exchange


class DirectExchange(Exchange):
    """The routing key equals the binding key: one look-up whatever the number of bindings."""

    def __init__(self, *declaration: Any, **named: Any) -> None:
        super().__init__(*declaration, **named)
        self._by_key: dict[str, dict[Binding, None]] = {}

    def matches(self, routing_key: str, headers: Arguments | None = None, properties: object = None) -> Iterable[Any]:
        return [binding.destination for binding in self._by_key.get(routing_key, ())]

    def added(self, binding: Binding) -> None:
        self._by_key.setdefault(binding.key, {})[binding] = None

    def removed(self, binding: Binding) -> None:
        alike = self._by_key[binding.key]
        del alike[binding]
        if not alike:
            del self._by_key[binding.key]


class DefaultExchange(Exchange):
    """Every queue is bound to it by its own name; nothing else can be."""

    # A look-up by name is as quick as the cache, which 100,000 queue names would only flush.
    cacheable = False

    def __init__(self, queues: Mapping[str, Any]) -> None:
        super().__init__("", "direct")
        self._queues = queues

    def matches(self, routing_key: str, headers: Arguments | None = None, properties: object = None) -> Iterable[Any]:
        queue = self._queues.get(routing_key)
        return () if queue is None else (queue,)


class FanoutExchange(Exchange):
    """Every binding matches every message."""

    def matches(self, routing_key: str, headers: Arguments | None = None, properties: object = None) -> Iterable[Any]:
        return [binding.destination for binding in self.bindings.values()]
