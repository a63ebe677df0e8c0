"""Which queues are for dead letters: those that others send theirs to.

Dead letters wait until somebody looks at them, so rules about waiting leave these queues alone.
"""

from leveret.core.broker import Broker
from leveret.core.queue import Queue

SOURCES_MAX = 1_000  # different ways to bury that are looked at

Grave = tuple[str, str, str | None]
"""Virtual host, exchange and routing key of dead letters."""


class Graveyards:
    """Known from the last look at all queues."""

    def __init__(self) -> None:
        """None is known yet."""
        self._known: set[tuple[str, str]] = set()
        self._graves: set[Grave] = set()

    def __contains__(self, queue: Queue) -> bool:
        """Whether a queue is for dead letters."""
        return (queue.vhost, queue.name) in self._known

    def look(self, queue: Queue) -> None:
        """See where a queue sends its dead."""
        policy = queue.policy
        if policy.dead_letter_exchange is not None and len(self._graves) < SOURCES_MAX:
            self._graves.add((queue.vhost, policy.dead_letter_exchange, policy.dead_letter_routing_key))

    def finish(self, core: Broker) -> None:
        """All queues were looked at; under the lock."""
        graves, self._graves = self._graves, set()
        self._known = {found for grave in graves for found in _queues_at(core, grave)}


def _queues_at(core: Broker, grave: Grave) -> set[tuple[str, str]]:
    """The queues that dead letters come to; without a key of their own, all that are bound to their exchange."""
    vhost, name, key = grave
    home = core.topology.vhosts.get(vhost)
    exchange = None if home is None else home.exchanges.get(name)
    if exchange is None:
        return set()
    if not name:
        return {(vhost, key)} if key else set()
    found = [binding.destination for binding in exchange.bindings.values() if key is None or binding.key == key]
    return {(vhost, each.name) for each in found if isinstance(each, Queue)}
