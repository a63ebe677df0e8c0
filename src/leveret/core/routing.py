"""Where a message goes: exchange after exchange, each visited once, until only queues are left."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from leveret.core.exchanges import Binding, Exchange, new_exchange

EXAMINED_MAX = 10_000
"""Bindings that one probe looks at under the lock: about 60 ms of a processor in a topic exchange."""


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


class Probe(NamedTuple):
    """Queues, each once; the bindings that led there; alternate exchanges that took what matched nothing."""

    queues: list[Any]
    bindings: list[Binding]
    alternates: list[tuple[str, str]]
    complete: bool
    """Whether every binding that may have matched was looked at."""


def probe(source: Exchange, exchanges: Mapping[str, Exchange], key: str, headers: Mapping[str, Any]) -> Probe:
    """Follow a message that is not there: the same walk, told step by step for people."""
    queues: dict[Any, None] = {}
    bindings: list[Binding] = []
    alternates: list[tuple[str, str]] = []
    pending, left = {source: None}, EXAMINED_MAX
    for exchange in _growing(pending):
        reached = list(exchange.matches(key, headers))
        if not reached and exchange.alternate is not None and exchange.alternate in exchanges:
            reached = [exchanges[exchange.alternate]]
            alternates.append((exchange.name, exchange.alternate))
        else:
            ends = set(reached)
            likely = [each for each in exchange.bindings.values() if each.destination in ends]
            bindings += [each for each in likely[: max(0, left)] if _matches_alone(exchange, each, key, headers)]
            left -= len(likely)
        for destination in reached:
            (pending if isinstance(destination, Exchange) else queues)[destination] = None
    return Probe(list(queues), bindings, alternates, left >= 0)


def _growing(pending: dict[Exchange, None]) -> Iterator[Exchange]:
    """Each exchange once, those too that are added meanwhile."""
    seen: set[Exchange] = set()
    while fresh := [each for each in pending if each not in seen]:
        seen.update(fresh)
        yield from fresh


def _matches_alone(exchange: Exchange, binding: Binding, key: str, headers: Mapping[str, Any]) -> bool:
    """Whether a binding would match if it were the only one; exchanges index theirs, and tell destinations only."""
    lonely = new_exchange(exchange.name, exchange.type, arguments=exchange.arguments)
    lonely.bind(binding.destination, binding.key, binding.arguments)
    return bool(list(lonely.matches(key, headers)))
