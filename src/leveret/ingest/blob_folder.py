"""Staged pieces where the next owner of a shard finds them: each is a blob, and a message of a queue points to it.

The queue is in a virtual host of its own: no client can name it. A blob that no message points to is removed when the
broker is opened, as that of any message that was never published.
"""

from __future__ import annotations

from leveret.core import browse
from leveret.core.broker import Broker as Core
from leveret.core.errors import LeveretError
from leveret.core.names import INTERNAL_VHOST
from leveret.core.properties import Properties, content
from leveret.core.queue import Queue
from leveret.embedded.broker import Broker
from leveret.storage.blobs import body_bytes

NAME = "staging"
PAGE = 1_000  # messages that are looked at in one go


class BlobFolder:
    """Named files of a broker; those that write, read and remove wait for its store."""

    encrypts = True  # a blob is, if there are keys

    def __init__(self, broker: Broker) -> None:
        assert broker.runtime.large is not None, "a broker in memory has nowhere to stage"
        self._runtime = broker.runtime
        self._large = broker.runtime.large
        self._kept: dict[str, tuple[int, bytes]] = {}  # the number of a message, and the pointer in it
        with self._runtime as core:
            queue = _queue(core)
            cursor: browse.Cursor | None = ()
            while cursor is not None:
                found, cursor = browse.ready_after(queue, cursor, PAGE)
                for held in found:
                    message = browse.read(held)
                    self._kept[str(message.properties.message_id)] = held.seq, message.body

    def names(self) -> list[str]:
        """What is here."""
        return list(self._kept)

    def size(self, name: str) -> int:
        """In bytes."""
        return body_bytes(self._kept[name][1])

    def read_all(self, name: str) -> bytes:
        """All of a file."""
        return self._large.get(self._known(name)[1])

    def write(self, name: str, *parts: bytes) -> None:
        """Have a file durably, in the place of the one that has its name."""
        pointer = self._large.put(b"".join(parts), self._runtime.clock.now_ms())
        with self._runtime as core:
            queue = _queue(core)
            try:
                seq = core.publish([queue], queue.route, *content(Properties(message_id=name), pointer), blob=True)
            except LeveretError:
                self._large.drop_unused(pointer)
                raise
            if name in self._kept:
                browse.ack_waiting(queue, self._kept[name][0])
            self._kept[name] = seq, pointer
            commit_batch = self._runtime.commit()
        self._runtime.wait(commit_batch)

    def unlink(self, name: str) -> None:
        """Remove a file."""
        with self._runtime as core:
            browse.ack_waiting(_queue(core), self._known(name)[0])
            del self._kept[name]
            self._runtime.commit()

    def _known(self, name: str) -> tuple[int, bytes]:
        if name not in self._kept:
            raise FileNotFoundError(name)
        return self._kept[name]


def _queue(core: Core) -> Queue:
    """The queue, made when it is first needed."""
    if INTERNAL_VHOST not in core.topology.vhosts:
        core.declare_vhost(INTERNAL_VHOST)
    known = core.topology.vhosts[INTERNAL_VHOST].queues.get(NAME)
    return core.declare_queue(INTERNAL_VHOST, NAME) if known is None else known
