"""What a worker has done, remembered by the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.client import calls
from leveret.core.names import PROCESSED_SUFFIX
from leveret.embedded.processed import WINDOW_S

if TYPE_CHECKING:
    from leveret.client.message import RemoteMessage
    from leveret.client.queue import RemoteQueue


class RemoteProcessed:
    """The memory of the workers of one name. See leveret.embedded.processed."""

    def __init__(self, source: RemoteQueue, name: str) -> None:
        self._source = source
        self._name = name
        source.broker.queue(source.name + PROCESSED_SUFFIX, dedup_window=WINDOW_S, durable=source.durable)

    def has(self, message: RemoteMessage) -> bool:
        """Whether a message was handled before."""
        return self._source.broker.run(calls.is_processed(self._source.name, message.id, self._name))

    def finish(self, message: RemoteMessage) -> None:
        """Remember a handled message and acknowledge it, by one frame of the journal."""
        call = calls.finish(self._source.name, message.id, message.receipt, self._name, message.visible_until)
        self._source.broker.run(call)
