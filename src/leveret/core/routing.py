"""Where a message goes: exchange after exchange, each visited once, until only queues are left."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from leveret.core.exchanges import Exchange


class Route(NamedTuple):
    """The queues that matched, each once; and whether the routing key alone decided it."""

    queues: list[Any]
    cacheable: bool


def walk(
    source: Exchange,
    exchanges: Mapping[str, Exchange],
    keys: Sequence[str],
    headers: Mapping[str, Any] | None,
    properties: object,
) -> Route:
    """Follow bindings, and the alternate exchange wherever nothing matched; cycles end at the first repetition."""
    found: dict[Any, None] = {}
    visited = {source}
    pending = [source]
    cacheable = True
    for exchange in pending:
        cacheable = cacheable and exchange.cacheable
        matched = [each for key in keys for each in exchange.matches(key, headers, properties)]
        if not matched and exchange.alternate is not None and exchange.alternate in exchanges:
            matched = [exchanges[exchange.alternate]]
        for destination in matched:
            if not isinstance(destination, Exchange):
                found[destination] = None
            elif destination not in visited:
                visited.add(destination)
                pending.append(destination)
    return Route(list(found), cacheable)
