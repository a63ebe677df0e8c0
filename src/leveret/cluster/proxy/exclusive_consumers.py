"""Who alone is given the messages of a queue: an exclusive consumer, or the active one of those that take turns.

They keep their place when the shard changes its owner. A definition of the core names the exclusive consumer of each
such queue, so the next owner knows for whom to wait, for as long as for those who hold messages
(`cluster/proxy/orphaned_deliveries.py`): meanwhile others are refused as before, or wait their turn. All of it under
the lock of the shard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from leveret.cluster.proxy.orphaned_deliveries import OrphanedDeliveries
from leveret.core.broker import Broker
from leveret.core.catalog import Kind
from leveret.core.consumer import Consumer
from leveret.core.dispatch import activate, in_exclusive_use
from leveret.core.queue import Queue

if TYPE_CHECKING:
    from leveret.cluster.proxy.proxied import ProxiedConnection
    from leveret.protocols.amqp.subscriber import Subscriber


class ExclusiveConsumers:
    """Those of one shard."""

    def __init__(self, core: Broker, orphaned: OrphanedDeliveries) -> None:
        self._core = core
        self._orphaned = orphaned
        self.is_present: Callable[[str], bool] = lambda node: True
        """Whether a node can still have the clients that it had."""
        orphaned.given_up = self.look

    def hold_back(self) -> None:
        """This owner is new: wait for those who were there."""
        for row in tuple(self._core.catalog.of(Kind.EXCLUSIVE_CONSUMER)):
            vhost = self._core.topology.vhosts.get(row["vhost"])
            queue = None if vhost is None else vhost.queues.get(row["queue"])
            if queue is not None and self.is_present(row["node"]):
                self._orphaned.wait_for(queue)
            else:
                self._core.undefine(Kind.EXCLUSIVE_CONSUMER, {"vhost": row["vhost"], "queue": row["queue"]})

    def keep(self, connection: ProxiedConnection) -> None:
        """A client cannot be reached: what it alone consumes is kept for it."""
        for channel in connection.channels.values():
            for subscriber in channel.subscribers.values():
                if _exclusive_consumer(subscriber.queue) is subscriber:
                    self._orphaned.wait_for(subscriber.queue)

    def check(self, queue: Queue, subscriber: Subscriber) -> None:
        """Refuse a consumer while the one that has the queue for itself is waited for."""
        awaited = self._awaited(queue)
        if awaited is not None and awaited["exclusive"] and awaited["who"] != _name(subscriber):
            raise in_exclusive_use(queue)

    def begun(self, queue: Queue, subscriber: Subscriber) -> None:
        """A consumer has begun; the one that was waited for has its place again."""
        awaited = self._awaited(queue)
        if awaited is not None and awaited["who"] == _name(subscriber):
            if queue.policy.single_active_consumer:
                activate(queue, subscriber)
            self._orphaned.came(queue)
        self.look(queue)

    def look(self, queue: Queue) -> None:
        """Consumers of a queue have come or gone: define who is the exclusive consumer."""
        if self._orphaned.awaits(queue):
            return
        key = {"vhost": queue.vhost, "queue": queue.name}
        exclusive_consumer, known = (
            None if queue.deleted else _exclusive_consumer(queue),
            self._core.catalog.get(Kind.EXCLUSIVE_CONSUMER, **key),
        )
        if exclusive_consumer is None:
            if known is not None:
                self._core.undefine(Kind.EXCLUSIVE_CONSUMER, key)
        elif known is None or known["who"] != _name(exclusive_consumer):
            node = exclusive_consumer.channel.connection.entrance
            facts = {"who": _name(exclusive_consumer), "node": node, "exclusive": exclusive_consumer.exclusive}
            self._core.define(Kind.EXCLUSIVE_CONSUMER, {**key, **facts})
            exclusive_consumer.channel.connection.hold_back()  # it keeps that place with the next owner

    def _awaited(self, queue: Queue) -> dict[str, Any] | None:
        """Who is waited for."""
        if not self._orphaned.awaits(queue):
            return None
        return self._core.catalog.get(Kind.EXCLUSIVE_CONSUMER, vhost=queue.vhost, queue=queue.name)


def _exclusive_consumer(queue: Queue) -> Any:
    """The consumer that is alone; None: there is none, or others are given messages too."""
    if queue.policy.single_active_consumer:
        return queue.active
    found: Consumer | None = queue.consumers[0] if queue.consumers else None
    return found if found is not None and found.exclusive else None


def _name(subscriber: Any) -> str:
    """What a consumer is known by, wherever its shard is: the connection of its client, channel and tag."""
    channel = subscriber.channel
    return f"{channel.connection.entrance} {channel.connection.name} {channel.number} {subscriber.tag}"
