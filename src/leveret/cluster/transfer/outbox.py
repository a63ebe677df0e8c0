"""The outbox of a shard: dead letters for queues of other shards, messages that are moved to them, rows of sinks.

    dies -> [one frame: settled, and in the outbox] -> sent to each shard, which may have it already -> [acknowledged]

Whatever goes wrong in between, it is still in the outbox. That is a queue for each destination
(`cluster/transfer/destination_sender.py`): a shard for dead letters, which no queue keeps waiting, and for all else a
queue. They are in a virtual host of their own, which the catalog does not know: no client can name them, and no policy
reaches them.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from leveret.cluster.transfer import destination_sender
from leveret.cluster.transfer.destination_sender import PREFIX, Destination, Load, Mailbag, destination_of
from leveret.cluster.transfer.message import addressed
from leveret.core.broker import Broker
from leveret.core.errors import BrokerClosed, JournalFailed
from leveret.core.names import INTERNAL_VHOST
from leveret.core.properties import Properties, encode_header, rejoined
from leveret.core.publish import route_of
from leveret.core.queue import Queue

if TYPE_CHECKING:
    from leveret.protocols.amqp.hub import Hub

ROWS_MAX = 10_000  # letters for one destination after which rows of sinks wait
IDLE_MS = 60_000  # after which the queue of an empty bag goes


class Office(destination_sender.Office, Protocol):
    """What an outbox needs of its node."""

    def definitions(self) -> AbstractContextManager[Broker]:
        """What there is in all shards, under a lock; from whatever thread, with or without the lock of a shard."""


class Waiting(NamedTuple):
    """What operators see of one destination."""

    destination: str
    letters: int
    age_ms: int
    is_stuck: bool


class Outbox:
    """The letters of one shard for all the others."""

    def __init__(self, home: str, core: Broker, office: Office) -> None:
        """Keep them from now on; they are sent as soon as there is a hub."""
        self._home = home
        self._core = core
        self._office = office
        self._hub: Hub | None = None
        self._load = Load()
        self._bags: dict[str, Mailbag] = {}
        self._dropped = 0
        self.definitions = office.definitions
        core.dead_letters.outbox = self._keep
        core.away = self._forward

    def start(self, hub: Hub) -> None:
        """Send what there is, and what will come."""
        self._hub = hub
        with hub.locked():
            vhost = self._core.topology.vhosts.get(INTERNAL_VHOST)
            for queue in () if vhost is None else tuple(vhost.queues.values()):
                if queue.name.startswith(PREFIX):
                    self._bag(destination_of(queue.arguments))
            for bag in self._bags.values():
                bag.hub = hub
                bag.wake()

    def close(self) -> None:
        """Send no more: the next owner has what is not acknowledged, and what still dies here."""
        hub, self._hub = self._hub, None
        if hub is not None:
            with suppress(JournalFailed, BrokerClosed), hub.locked():
                for bag in self._bags.values():
                    bag.close()

    def retry(self) -> None:
        """Send again what had no answer, or found no room; a tenth of a second has passed."""
        bags = tuple(self._bags.values())
        if self._hub is not None and any(bag.depth or self._is_idle(bag) for bag in bags):
            with suppress(JournalFailed, BrokerClosed), self._hub.locked():
                self._sweep()  # and time passes
            for bag in bags:
                bag.retry()

    # What operators see

    @property
    def depth(self) -> int:
        """How many letters are not everywhere yet."""
        return sum(bag.depth for bag in tuple(self._bags.values()))

    @property
    def dropped(self) -> int:
        """Letters whose queues had gone when they could be sent."""
        return self._dropped + sum(bag.dropped for bag in tuple(self._bags.values()))

    def waiting(self) -> list[Waiting]:
        """What there is for each destination."""
        bags = [bag for bag in tuple(self._bags.values()) if bag.depth]
        return [Waiting(str(bag.destination), bag.depth, bag.age_ms, bag.is_stuck) for bag in bags]

    # Under the lock of the shard

    def _keep(
        self, vhost: str, exchange: str, keys: list[str], properties: Properties, waits: bool
    ) -> list[tuple[Properties, list[Queue]]]:
        """See leveret.core.deadletter.Outbox."""
        away = self._away(vhost, exchange, keys, properties)
        if not away:
            return []
        if waits:
            queues = [Destination(home, vhost, name) for home, names in away.items() for name in sorted(names)]
            return [(addressed(properties, vhost, sent={}), self._woken(queues))]
        return [(addressed(properties, vhost), self._woken(Destination(home) for home in away))]

    def _forward(self, vhost: str, name: str, properties: Properties) -> tuple[Properties, Queue] | None:
        """See leveret.core.deadletter.Away."""
        for home in self._away(vhost, "", [name], Properties()):
            [queue] = self._woken([Destination(home, vhost, name)])
            return addressed(properties, vhost, moved=True), queue
        return None

    def road(self, vhost: str, exchange: str, routing_key: str, keys: list[str], properties: Properties) -> Road | None:
        """See leveret.ingest.other_shards.Elsewhere."""
        away = self._away(vhost, exchange, keys, properties if exchange else Properties())
        bags = [self._bag(Destination(home, vhost, name)) for home, names in away.items() for name in sorted(names)]
        return Road(self._core, bags, vhost, exchange, routing_key, properties) if bags else None

    def _away(self, vhost: str, exchange: str, keys: list[str], properties: Properties) -> dict[str, set[str]]:
        """The queues of other shards that a message goes to, by shard."""
        reached = self._office.reached(vhost, exchange, keys, properties)
        return {home: reached[home] for home in sorted(reached) if home != self._home}

    def _woken(self, destinations: Iterable[Destination]) -> list[Queue]:
        """The queues for some destinations, which get a letter now."""
        bags = [self._bag(each) for each in destinations]
        for bag in bags:
            bag.wake()
        return [bag.queue for bag in bags]

    def _bag(self, destination: Destination) -> Mailbag:
        """The letters for a destination; their queue is made when it is first needed."""
        name = destination.bag
        found = self._bags.get(name)
        if found is None:
            self._core.declare_vhost(INTERNAL_VHOST)
            queue = self._core.declare_queue(INTERNAL_VHOST, name, destination.arguments)
            found = Mailbag(destination, self._home, self._core, queue, self._office, self._load)
            found.hub = self._hub
            self._bags[name] = found
        return found

    def _sweep(self) -> None:
        """Remove what was not needed for a while."""
        for name, bag in tuple(self._bags.items()):
            if self._is_idle(bag):
                self._dropped += bag.dropped
                del self._bags[name]
                self._core.delete_queue(bag.queue)

    def _is_idle(self, bag: Mailbag) -> bool:
        return not bag.depth and self._core.now_ms - bag.queue.used_ms >= IDLE_MS


class Road:
    """See leveret.ingest.other_shards.Road."""

    def __init__(
        self, core: Broker, bags: list[Mailbag], vhost: str, exchange: str, routing_key: str, properties: Properties
    ) -> None:
        """The bags are those of the queues that it leads to."""
        self._core = core
        self._bags = bags
        self._vhost = vhost
        self._exchange = exchange
        self._properties = properties
        self._route = route_of(exchange, routing_key)
        self._queues = [bag.queue for bag in bags]
        self._told: dict[str, Any] = {}
        self._header = b""  # of a letter of which that is told

    def room(self) -> int:
        """How many letters more may wait for each of them."""
        return max(0, ROWS_MAX - max(bag.depth for bag in self._bags))

    def send(self, body: bytes, **options: Any) -> None:
        """Put a letter into all of them."""
        told = {"due_ms": options["due_ms"], "expiry_ms": options["expiry_ms"], "key": (options["key"] or b"").hex()}
        if told != self._told:
            sent = addressed(self._properties, self._vhost, not self._exchange, told)
            self._told, self._header = told, encode_header(sent, 0)
        wire, header_len = rejoined(self._header, body), len(self._header)
        times = {"priority": options["priority"], "group": options["group"], "blob": options["blob"]}
        self._core.publish(self._queues, self._route, wire, header_len, **times)
        for bag in self._bags:
            bag.wake()
