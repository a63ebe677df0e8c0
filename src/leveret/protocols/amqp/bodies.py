"""Large bodies: stored before their message is published, fetched before it is delivered, both in other threads.

What was fetched is kept until it is delivered; of bodies that are not delivered the oldest goes first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from leveret.core.held import Held
from leveret.core.message import Message
from leveret.core.properties import content
from leveret.core.tables import Long
from leveret.observability.logs import Log

if TYPE_CHECKING:
    from leveret.protocols.amqp.hub import Hub
    from leveret.runtime.large_bodies import LargeBodies

FETCHED_BYTES_MAX = 64 << 20
RETRY_MS = 1_000  # after a blob store failed

LOG = Log("amqp")


T = TypeVar("T")
DELIVERY_COUNT = "x-delivery-count"
ACQUIRED_COUNT = "x-acquired-count"  # of RabbitMQ 4.3, which counts there what it does not hold against a message
BODY_SIZE_AT = 4  # in a content header: eight bytes


def tried(job: Callable[[], T]) -> T | Exception:
    """What a job gives, or why it failed: that is for the connection that waits for it, not for the thread."""
    try:
        return job()
    except Exception as error:
        return error


class Bodies:
    """The large bodies that are on their way to clients."""

    def __init__(self, hub: Hub, store: LargeBodies) -> None:
        self._hub = hub
        self.store = store
        self._fetched: OrderedDict[bytes, bytes] = OrderedDict()
        self._fetched_bytes = 0
        self._wanted: dict[bytes, list[Callable[[], None]]] = {}
        self._failed: list[tuple[int, bytes]] = []

    def get(self, pointer: bytes) -> bytes | None:
        return self._fetched.get(pointer)

    def fetch(self, pointer: bytes, then: Callable[[], None]) -> None:
        """Call `then`, under the lock of the runtime, when the body is here; as long as the store fails, it is
        asked again.
        """
        waiting = self._wanted.setdefault(pointer, [])
        waiting.append(then)
        if len(waiting) == 1:
            self._ask(pointer)

    def _ask(self, pointer: bytes) -> None:
        self._hub.in_thread(partial(tried, partial(self.store.get, pointer)), partial(self._came, pointer))

    def _came(self, pointer: bytes, result: bytes | Exception) -> None:
        with self._hub.locked() as core:
            if isinstance(result, bytes):
                self._keep(pointer, result)
            elif pointer in core.engine.blobs:
                LOG.error("large body cannot be fetched", result, advice="its queue waits: repair the blob store")
                self._failed.append((core.now_ms + RETRY_MS, pointer))
                return
            # Here, or not wanted any more because its message is gone: the waiting channel looks what is next.
            for then in self._wanted.pop(pointer):
                then()
        self._hub.resume()

    def _keep(self, pointer: bytes, body: bytes) -> None:
        self._fetched[pointer] = body
        self._fetched_bytes += len(body)
        while self._fetched_bytes > FETCHED_BYTES_MAX and len(self._fetched) > 1:
            self._fetched_bytes -= len(self._fetched.popitem(last=False)[1])

    def retry(self, now_ms: int) -> None:
        """Ask again for what could not be fetched a while ago."""
        due = [pointer for at_ms, pointer in self._failed if at_ms <= now_ms]
        self._failed = [each for each in self._failed if each[0] > now_ms]
        for pointer in due:
            self._ask(pointer)


def delivered_header(held: Held, message: Message, body_bytes: int) -> bytes:
    """The content header as the consumer gets it; the body, which may be large, is not copied for that."""
    properties = message.properties
    if held.deliveries > 1 and held.queue.is_quorum:
        before = Long(held.deliveries - 1)
        headers = {**(properties.headers or {}), DELIVERY_COUNT: before, ACQUIRED_COUNT: before}
        properties = replace(properties, headers=headers)
    header, _ = content(properties, b"")
    return header[:BODY_SIZE_AT] + body_bytes.to_bytes(8, "big") + header[BODY_SIZE_AT + 8 :]
