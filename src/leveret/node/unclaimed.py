"""Deliveries that somebody may still be working on: kept for a while, so that nobody else is given their messages.

When a shard gets another owner its clients come back through their fronts, one after the other, and each says which
messages it holds. The journal knows what was delivered (up to the last 50 ms): until its holder has come, or can not
be expected any more, such a message waits. So does a whole queue with a single active consumer, whose order would else
be lost. What was delivered and is not in the journal yet may be delivered twice, if another client comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import random

from leveret.amqp.transaction import ACKED, REQUEUED
from leveret.core.broker import Broker
from leveret.core.claims import claim, give_up, hold_delivered
from leveret.core.errors import JournalFailed, LeveretError
from leveret.core.held import Held
from leveret.core.names import INTERNAL_VHOST
from leveret.core.queue import Queue
from leveret.core.timers import Alarm
from leveret.node.claims import Delivered
from leveret.telemetry.logs import Log

GRACE_MS = 2_000  # fronts find the next owner in a tenth of that
KEPT_MAX = 100_000  # of a shard: each is an object in memory; what is over is delivered at once


LOG = Log("node")

Key = tuple[int, int]  # queue and message


class Unclaimed:
    """The deliveries of one shard whose holders are waited for."""

    def __init__(self, core: Broker) -> None:
        """Nothing is kept yet."""
        self._core = core
        self._kept: dict[Key, tuple[Held, int]] = {}  # with the number of the lease
        self._paused: set[Queue] = set()
        self._awaited: set[Queue] = set()
        self.given_up: Callable[[Queue], None] = lambda queue: None
        """Told of a queue whose only consumer was waited for, and has not come."""
        self._alarm = Alarm(core.timers, self._give_up)
        core.kept = self.give

    # Under the lock of the shard

    def hold_back(self) -> None:
        """This owner is new: keep what the journal says was delivered."""
        for queue in self._core.queues.values():
            if queue.recorder is None and queue.vhost != INTERNAL_VHOST:
                self.keep((held, held.lease) for held in hold_delivered(queue, KEPT_MAX - len(self._kept)))
        self.keep(())  # also what was kept before, if this node was the owner already

    def keep(self, leases: Iterable[tuple[Held, int]]) -> None:
        """Keep leased messages whose holders cannot be reached."""
        for held, lease in leases:
            self._kept[held.queue.id, held.seq] = held, lease
            self._pause(held.queue)
        if self._kept:
            self._alarm.set(self._core.now_ms + GRACE_MS)

    def wait_for(self, queue: Queue) -> None:
        """Wait for the only consumer of a queue."""
        self._awaited.add(queue)
        self._pause(queue)
        self._alarm.set(self._core.now_ms + GRACE_MS)

    def awaits(self, queue: Queue) -> bool:
        """Whether its only consumer is waited for."""
        return queue in self._awaited

    def came(self, queue: Queue) -> None:
        """It has come."""
        self._awaited.discard(queue)
        self._resume(queue)

    def _pause(self, queue: Queue) -> None:
        if queue.policy.single_active_consumer and not queue.paused:
            queue.pause()
            self._paused.add(queue)

    def stop(self) -> None:
        """This owner is not asked any more: the next one is to wait."""
        self._alarm.stop()

    def claim(self, queue: Queue, delivered: Delivered) -> Held | None:
        """Somebody was given a message before; None when it is gone, or another's."""
        kept, _ = self._kept.get((queue.id, delivered.seq), (None, 0))
        found = claim(queue, *delivered[1:], kept=kept)
        if found is not None:
            self._kept.pop((queue.id, delivered.seq), None)
        self._resume(queue)
        return found

    def give(self, queue: Queue, seq: int) -> Held | None:
        """Somebody has a receipt of a message that is kept; None when it is not."""
        held, _ = self._kept.pop((queue.id, seq), (None, 0))
        self._resume(queue)
        return held

    def settle(self, queue: Queue, delivered: Delivered, how: int) -> bool:
        """Settle what somebody was given before; False when it is another's, or cannot be settled now."""
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
        waits = queue in self._awaited or any(number == queue.id for number, _ in self._kept)
        if queue in self._paused and not waits:
            self._paused.discard(queue)
            queue.pause(False)

    def _give_up(self, now_ms: int) -> None:
        """Nobody has come for what is left."""
        for key, (held, lease) in tuple(self._kept.items()):
            try:
                give_up(held, lease)
            except JournalFailed:
                raise
            except LeveretError as error:  # it has died meanwhile, and cannot be read: that is tried again
                LOG.warning("message not given back", queue=held.queue.name, reason=error)
                self._alarm.set(now_ms + GRACE_MS)
            else:
                del self._kept[key]
        awaited, self._awaited = self._awaited, set()
        for queue in awaited:
            self.given_up(queue)
        for queue in tuple(self._paused):
            self._resume(queue)
