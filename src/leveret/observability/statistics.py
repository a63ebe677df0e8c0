"""What queues count, for the parts that judge, show or export it."""

from collections.abc import Iterable, Sequence

from leveret.core.broker import Broker
from leveret.core.queue import Queue
from leveret.core.topology import Vhost


def gained(now: Sequence[int], before: Sequence[int]) -> tuple[int, ...]:
    """What came into each bucket between two looks."""
    return tuple(each - earlier for each, earlier in zip(now, before, strict=True))


def graveyards(core: Broker, queues: Iterable[Queue]) -> set[Queue]:
    """Where these queues send their dead: what lies there waits for an operator, not for consumers. Under the lock."""
    found: set[Queue] = set()
    targets = {(each.vhost, each.policy.dead_letter_exchange, each.policy.dead_letter_routing_key) for each in queues}
    for vhost, exchange, key in targets:
        if exchange is not None:
            found.update(_destinations(core.topology.vhost(vhost), exchange, key))
    return found


def _destinations(virtual_host: Vhost, exchange: str, key: str | None) -> list[Queue]:
    """Where an exchange sends a key; without one, wherever it sends anything."""
    if exchange == "":
        return [virtual_host.queues[key]] if key in virtual_host.queues else []
    source = virtual_host.exchanges.get(exchange)
    if source is None:
        return []
    if key is not None and not source.internal:
        return virtual_host.route(exchange, [key], {})
    return [each.destination for each in source.bindings.values() if isinstance(each.destination, Queue)]
