"""The outbox of a shard: dead letters for queues of other shards, messages that are moved to them, rows of sinks.

    dies -> [one commit batch: settled, and in the outbox] -> sent to each shard, which may have it already ->
    [acknowledged]

Whatever goes wrong in between, it is still in the outbox. That is a queue for each destination
(`cluster/transfer/destination_sender.py`): a shard for dead letters, which no queue keeps waiting, and for all else a
queue. They are in a virtual host of their own, which the catalog does not know: no client can name them, and no policy
reaches them.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from leveret.cluster.transfer.destination_sender import (
    PREFIX,
    DestinationSender,
    InFlightBytes,
    OutboxDestination,
    OutboxNode,
    destination_of,
)
from leveret.cluster.transfer.message import addressed
from leveret.core.broker import Broker
from leveret.core.errors import BrokerClosed, JournalFailed
from leveret.core.names import INTERNAL_VHOST
from leveret.core.properties import Properties, encode_header, rejoined
from leveret.core.publish import route_of
from leveret.core.queue import Queue

if TYPE_CHECKING:
    from leveret.protocols.amqp.hub import Hub

ROWS_MAX = 10_000  # outbox messages for one destination after which rows of sinks wait
IDLE_MS = 60_000  # after which the queue of an empty sender goes


class DestinationBacklog(NamedTuple):
    """What operators see of one destination."""

    destination: str
    messages: int
    age_ms: int
    is_stuck: bool


class Outbox:
    """The outbox messages of one shard for all the others."""

    def __init__(self, shard_id: str, core: Broker, node: OutboxNode) -> None:
        """Keep them from now on; they are sent as soon as there is a hub."""
        self._shard_id = shard_id
        self._core = core
        self._node = node
        self._hub: Hub | None = None
        self._load = InFlightBytes()
        self._senders: dict[str, DestinationSender] = {}
        self._dropped = 0
        self.definitions = node.definitions
        core.dead_letters.outbox = self._keep
        core.away = self._forward

    def start(self, hub: Hub) -> None:
        """Send what there is, and what will come."""
        self._hub = hub
        with hub.locked():
            vhost = self._core.topology.vhosts.get(INTERNAL_VHOST)
            for queue in () if vhost is None else tuple(vhost.queues.values()):
                if queue.name.startswith(PREFIX):
                    self._sender(destination_of(queue.arguments))
            for sender in self._senders.values():
                sender.hub = hub
                sender.wake()

    def close(self) -> None:
        """Send no more: the next owner has what is not acknowledged, and what still dies here."""
        hub, self._hub = self._hub, None
        if hub is not None:
            with suppress(JournalFailed, BrokerClosed), hub.locked():
                for sender in self._senders.values():
                    sender.close()

    def retry(self) -> None:
        """Send again what had no answer, or found no room; a tenth of a second has passed."""
        senders = tuple(self._senders.values())
        if self._hub is not None and any(sender.depth or self._is_idle(sender) for sender in senders):
            with suppress(JournalFailed, BrokerClosed), self._hub.locked():
                self._sweep()  # and time passes
            for sender in senders:
                sender.retry()

    # What operators see

    @property
    def depth(self) -> int:
        return sum(sender.depth for sender in tuple(self._senders.values()))

    @property
    def dropped(self) -> int:
        """Outbox messages whose queues had gone when they could be sent."""
        return self._dropped + sum(sender.dropped for sender in tuple(self._senders.values()))

    def waiting(self) -> list[DestinationBacklog]:
        """What there is for each destination."""
        senders = [sender for sender in tuple(self._senders.values()) if sender.depth]
        return [
            DestinationBacklog(str(sender.destination), sender.depth, sender.age_ms, sender.is_stuck)
            for sender in senders
        ]

    # Under the lock of the shard

    def _keep(
        self, vhost: str, exchange: str, keys: list[str], properties: Properties, waits: bool
    ) -> list[tuple[Properties, list[Queue]]]:
        away = self._away(vhost, exchange, keys, properties)
        if not away:
            return []
        if waits:
            queues = [
                OutboxDestination(shard_id, vhost, name) for shard_id, names in away.items() for name in sorted(names)
            ]
            return [(addressed(properties, vhost, sent={}), self._woken(queues))]
        return [(addressed(properties, vhost), self._woken(OutboxDestination(shard_id) for shard_id in away))]

    def _forward(self, vhost: str, name: str, properties: Properties) -> tuple[Properties, Queue] | None:
        for shard_id in self._away(vhost, "", [name], Properties()):
            [queue] = self._woken([OutboxDestination(shard_id, vhost, name)])
            return addressed(properties, vhost, moved=True), queue
        return None

    def shard_route(
        self, vhost: str, exchange: str, routing_key: str, keys: list[str], properties: Properties
    ) -> OutboxRoute | None:
        away = self._away(vhost, exchange, keys, properties if exchange else Properties())
        senders = [
            self._sender(OutboxDestination(shard_id, vhost, name))
            for shard_id, names in away.items()
            for name in sorted(names)
        ]
        return OutboxRoute(self._core, senders, vhost, exchange, routing_key, properties) if senders else None

    def _away(self, vhost: str, exchange: str, keys: list[str], properties: Properties) -> dict[str, set[str]]:
        """The queues of other shards that a message goes to, by shard."""
        reached = self._node.reached(vhost, exchange, keys, properties)
        return {shard_id: reached[shard_id] for shard_id in sorted(reached) if shard_id != self._shard_id}

    def _woken(self, destinations: Iterable[OutboxDestination]) -> list[Queue]:
        """The queues for some destinations, which get an outbox message now."""
        senders = [self._sender(each) for each in destinations]
        for sender in senders:
            sender.wake()
        return [sender.queue for sender in senders]

    def _sender(self, destination: OutboxDestination) -> DestinationSender:
        """The outbox messages for a destination; their queue is made when it is first needed."""
        name = destination.sender
        found = self._senders.get(name)
        if found is None:
            self._core.declare_vhost(INTERNAL_VHOST)
            queue = self._core.declare_queue(INTERNAL_VHOST, name, destination.arguments)
            found = DestinationSender(destination, self._shard_id, self._core, queue, self._node, self._load)
            found.hub = self._hub
            self._senders[name] = found
        return found

    def _sweep(self) -> None:
        """Remove what was not needed for a while."""
        for name, sender in tuple(self._senders.items()):
            if self._is_idle(sender):
                self._dropped += sender.dropped
                del self._senders[name]
                self._core.delete_queue(sender.queue)

    def _is_idle(self, sender: DestinationSender) -> bool:
        return not sender.depth and self._core.now_ms - sender.queue.used_ms >= IDLE_MS


class OutboxRoute:
    """See leveret.ingest.publishing.ShardRoute."""

    def __init__(
        self,
        core: Broker,
        senders: list[DestinationSender],
        vhost: str,
        exchange: str,
        routing_key: str,
        properties: Properties,
    ) -> None:
        self._core = core
        self._senders = senders
        self._vhost = vhost
        self._exchange = exchange
        self._properties = properties
        self._route = route_of(exchange, routing_key)
        self._queues = [sender.queue for sender in senders]
        self._told: dict[str, Any] = {}
        self._header = b""  # of an outbox message of which that is told

    def room(self) -> int:
        """How many outbox messages more may wait for each of them."""
        return max(0, ROWS_MAX - max(sender.depth for sender in self._senders))

    def send(self, body: bytes, **options: Any) -> None:
        """Put an outbox message into all of them."""
        told = {"due_ms": options["due_ms"], "expiry_ms": options["expiry_ms"], "key": (options["key"] or b"").hex()}
        if told != self._told:
            sent = addressed(self._properties, self._vhost, not self._exchange, told)
            self._told, self._header = told, encode_header(sent, 0)
        wire, header_len = rejoined(self._header, body), len(self._header)
        times = {"priority": options["priority"], "group": options["group"], "blob": options["blob"]}
        self._core.publish(self._queues, self._route, wire, header_len, **times)
        for sender in self._senders:
            sender.wake()
