"""What a worker has done: the ids of handled messages, durable, so that a redelivery is not handled again.

The memory is the de-duplication of a companion queue, "<queue>.processed", that never holds a message: its keys are
journaled, kept for WINDOW_S and forgotten as those of every queue. The key and the acknowledgement are of one commit
batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.core.dedup import digest
from leveret.core.names import PROCESSED_SUFFIX
from leveret.runtime.declare import declare_queues
from leveret.runtime.managed import ManagedQueue

if TYPE_CHECKING:
    from leveret.core.broker import Broker as Core
    from leveret.runtime.message import Message

WINDOW_S = 7 * 24 * 3600


def memory_of(source: ManagedQueue) -> ManagedQueue:
    """The companion of a queue, made if need be."""
    vhost, name = source.anyway.vhost, source.name + PROCESSED_SUFFIX
    options = {"dedup_window": WINDOW_S}
    commit_batch, made = declare_queues(source.runtime, [name], options, vhost=vhost, durable=source.durable)
    source.runtime.wait(commit_batch)
    return ManagedQueue(source.runtime, made[0])


class Processed:
    """The memory of one consumer group of a queue."""

    def __init__(self, source: ManagedQueue, memory: ManagedQueue, name: str) -> None:
        self._source = source
        self._name = name
        self._memory = memory

    def has(self, message: Message) -> bool:
        """Whether a message was handled before."""
        return self.knows(message.id)

    def knows(self, message_id: str) -> bool:
        """The same, by the id of the message."""
        with self._source.runtime:
            return self._memory.core.duplicate_of(self._key(message_id)) is not None

    def finish(self, message: Message) -> None:
        """Remember a handled message and acknowledge it; it is remembered also if its lease has ended.

        Returns when that is durable: a crash repeats at most the message at hand.
        """
        commit_batch = 0
        try:
            with self._source.runtime as core:
                self.remember(core, message.id, message.seq)
                commit_batch = self._source.runtime.commit()
                self._source.core.ack(message.held, message.lease)
        finally:
            self._source.runtime.wait(commit_batch)

    def remember(self, core: Core, message_id: str, seq: int) -> None:
        """Remember a handled message. Under the lock."""
        key, memory = self._key(message_id), self._memory.core
        segment = core.journal.deduplicated(memory.id, key, seq, core.now_ms) if memory.durable else 0
        memory.remember(key, seq, core.now_ms, segment)

    def _key(self, message_id: str) -> bytes:
        """What is remembered of a message."""
        return digest(f"processed:{self._name}:{message_id}")
