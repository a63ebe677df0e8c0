"""Deliveries that clients may still be working on: kept for a while, so that no other client is given their messages.

When a shard gets another owner its clients come back through their proxies, one after the other, and each says which
messages it holds. The journal knows what was delivered (up to the last 50 ms): until its holder has come, or can not
be expected any more, such a message waits. So does a whole queue with a single active consumer, whose order would else
be lost. What was delivered and is not in the journal yet may be delivered twice, if another client comes first.

An exclusive consumer, or the active one of those that take turns, keeps its place when the shard changes its owner. A
definition of the core names the exclusive consumer of each such queue, so the next owner knows for whom to wait, for as
long as for those who hold messages: meanwhile others are refused as before, or wait their turn. All of it under
the lock of the shard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice, takewhile
from random import random
from typing import TYPE_CHECKING, Any, NamedTuple

from leveret.cluster.proxy.claims import Delivered
from leveret.core.broker import Broker
from leveret.core.claims import claim, give_up, hold_delivered
from leveret.core.consumer import Consumer
from leveret.core.definition_log import Kind
from leveret.core.dispatch import activate, in_exclusive_use
from leveret.core.errors import JournalFailed, LeveretError
from leveret.core.held import Held
from leveret.core.names import INTERNAL_VHOST
from leveret.core.queue import Queue
from leveret.core.timers import Alarm
from leveret.observability.logs import Log
from leveret.protocols.amqp.transaction import ACKED, REQUEUED

if TYPE_CHECKING:
    from leveret.cluster.proxy.proxied import ProxiedConnection
    from leveret.protocols.amqp.subscriber import Subscriber

GRACE_MS = 2_000  # proxies find the next owner in a tenth of that
KEPT_MAX = 100_000  # of a shard: each is an object in memory; what is over is delivered at once


LOG = Log("node")

Key = tuple[int, int]  # queue and message


class Kept(NamedTuple):
    """A message whose holder is waited for, the number of its lease, and until when."""

    held: Held
    lease: int
    until_ms: int


class OrphanedDeliveries:
    """The deliveries of one shard whose holders are waited for."""

    def __init__(self, core: Broker) -> None:
        self._core = core
        self._kept: dict[Key, Kept] = {}  # the first one is the one whose time ends first
        self._counts: Counter[int] = Counter()  # of those, by queue
        self._paused: set[Queue] = set()
        self._awaited: dict[Queue, int] = {}  # until when its only consumer is waited for; in that order
        self.given_up: Callable[[Queue], None] = lambda queue: None
        """Told of a queue whose only consumer was waited for, and has not come."""
        self._alarm = Alarm(core.engine.timers, self._give_up)
        core.kept = self.give

    # Under the lock of the shard

    def hold_back(self) -> None:
        """This owner is new: keep what the journal says was delivered."""
        for queue in self._core.queues.values():
            if queue.recorder is None and queue.vhost != INTERNAL_VHOST:
                self.keep((held, held.lease) for held in hold_delivered(queue, KEPT_MAX - len(self._kept)))
        before = [(kept.held, kept.lease) for kept in self._kept.values()]
        self.keep(before)  # if this node was the owner already

    def keep(self, leases: Iterable[tuple[Held, int]]) -> None:
        """Keep leased messages whose holders cannot be reached."""
        until_ms = self._core.now_ms + GRACE_MS
        for held, lease in leases:
            queue = held.queue
            self._pop(queue, held.seq)
            self._kept[queue.id, held.seq] = Kept(held, lease, until_ms)
            self._counts[queue.id] += 1
            self._pause(queue)
        self._wait()

    def _wait(self) -> None:
        """Look again when the time of the first one has come."""
        times = [kept.until_ms for kept in islice(self._kept.values(), 1)] + list(islice(self._awaited.values(), 1))
        if times:
            self._alarm.set(min(times))

    def _pop(self, queue: Queue, seq: int) -> Kept | None:
        kept = self._kept.pop((queue.id, seq), None)
        if kept is not None:
            self._counts[queue.id] -= 1
            if not self._counts[queue.id]:
                del self._counts[queue.id]
        return kept

    def wait_for(self, queue: Queue) -> None:
        self._awaited.pop(queue, None)
        self._awaited[queue] = self._core.now_ms + GRACE_MS
        self._pause(queue)
        self._wait()

    def awaits(self, queue: Queue) -> bool:
        return queue in self._awaited

    def came(self, queue: Queue) -> None:
        self._awaited.pop(queue, None)
        self._resume(queue)

    def _pause(self, queue: Queue) -> None:
        if queue.policy.single_active_consumer and not queue.paused:
            queue.pause()
            self._paused.add(queue)

    @contextmanager
    def stepping_aside(self) -> Iterator[None]:
        """Let definitions be compared and changed: whether a queue is paused is what those say, but for the wait."""
        paused, self._paused = self._paused, set()
        for queue in paused:
            queue.pause(False)
        try:
            yield
        finally:
            queues = self._core.queues
            for queue in {*self._awaited, *(queues[number] for number in self._counts if number in queues)}:
                self._pause(queue)

    def stop(self) -> None:
        """This owner is not asked any more: the next one is to wait."""
        self._alarm.stop()

    def claim(self, queue: Queue, delivered: Delivered) -> Held | None:
        """A client was given a message before; None when it is gone, or another's."""
        kept = self._kept.get((queue.id, delivered.seq))
        found = claim(queue, *delivered[1:], kept=None if kept is None else kept.held)
        if found is not None:
            self._pop(queue, delivered.seq)
        self._resume(queue)
        return found

    def give(self, queue: Queue, seq: int) -> Held | None:
        """A client has a receipt of a message that is kept; None when it is not."""
        kept = self._pop(queue, seq)
        self._resume(queue)
        return None if kept is None else kept.held

    def settle(self, queue: Queue, delivered: Delivered, how: int) -> bool:
        """Settle what a client was given before; False when it is another's, or cannot be settled now."""
        held = self.claim(queue, delivered)
        if held is None:
            return not queue.has_held(delivered.seq)
        try:
            if how == ACKED:
                queue.ack(held, held.lease)
            elif how == REQUEUED:
                self._core.nack(queue, held, held.lease, None, random())
            else:
                queue.reject(held, held.lease)
        except JournalFailed:
            raise
        except LeveretError as error:  # it has to be read to be dead-lettered, and that may fail
            LOG.warning("message not settled", queue=queue.name, reason=error)
            self.keep([(held, held.lease)])
            return False
        return True

    def _resume(self, queue: Queue) -> None:
        """Let a queue go on if everything of it was claimed."""
        if queue in self._paused and queue not in self._awaited and not self._counts[queue.id]:
            self._paused.discard(queue)
            queue.pause(False)

    def _give_up(self, now_ms: int) -> None:
        """No client has come in time."""
        due = list(takewhile(lambda kept: kept.until_ms <= now_ms, self._kept.values()))
        for held, lease, _ in due:
            self._pop(held.queue, held.seq)
            try:
                give_up(held, lease)
            except JournalFailed:
                raise
            except LeveretError as error:  # it has died meanwhile, and cannot be read: that is tried again
                LOG.warning("message not given back", queue=held.queue.name, reason=error)
                self.keep([(held, lease)])
        for queue in [queue for queue, until_ms in self._awaited.items() if until_ms <= now_ms]:
            del self._awaited[queue]
            self.given_up(queue)
        self._wait()
        for queue in tuple(self._paused):
            self._resume(queue)


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
