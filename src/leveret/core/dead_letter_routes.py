"""Where dead letters go: from each queue by its policy, through exchanges, to the queues that get them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from leveret.core.exchanges import DefaultExchange, Exchange
from leveret.core.topology import Vhost


class DeadLetterRoute(NamedTuple):
    """That dead letters of a queue go to an exchange, or straight to another queue."""

    source: Any
    destination: Any

    @property
    def destination_type(self) -> str:
        return "exchange" if isinstance(self.destination, Exchange) else "queue"


def dead_letter_routes(virtual_host: Vhost) -> Iterator[DeadLetterRoute]:
    """Every queue with dead letters, by name; not those whose dead letters have nowhere to go."""
    dying = [queue for queue in virtual_host.queues.values() if queue.policy.dead_letter_exchange is not None]
    for queue in sorted(dying, key=_name):
        exchange = virtual_host.exchanges.get(queue.policy.dead_letter_exchange)
        key = queue.policy.dead_letter_routing_key
        if isinstance(exchange, DefaultExchange):
            # Without a key of its own a dead letter keeps the one that it had, and that may be any.
            target = None if key is None else virtual_host.queues.get(key)
            if target is not None:
                yield DeadLetterRoute(queue, target)
        elif exchange is not None:
            yield DeadLetterRoute(queue, exchange)


def dead_letter_queues(virtual_host: Vhost) -> list[Any]:
    """The queues that dead letters may reach, by name."""
    found: dict[Any, None] = {}
    pending = [each.destination for each in dead_letter_routes(virtual_host)]
    seen: set[Any] = set()
    while pending:
        place = pending.pop()
        if place in seen:
            continue
        seen.add(place)
        if isinstance(place, Exchange):
            pending += [binding.destination for binding in place.bindings.values()]
            if place.alternate is not None and place.alternate in virtual_host.exchanges:
                pending.append(virtual_host.exchanges[place.alternate])
        else:
            found[place] = None
    return sorted(found, key=_name)


def _name(queue: Any) -> str:
    return str(queue.name)
