"""What a sink needs of the shards beside its own."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from leveret.core.broker import Broker
from leveret.core.properties import Properties


class Elsewhere(Protocol):
    """The other shards of a cluster; under the lock of the own one, unless told otherwise."""

    def definitions(self) -> AbstractContextManager[Broker]:
        """A copy of the exchanges, queues and bindings of all shards, under a lock; with or without that of a shard."""

    def reaches(self, vhost: str, exchange: str, keys: list[str], properties: Properties) -> bool:
        """Whether a message goes to a queue of another shard."""

    def has_room(self) -> bool:
        """Whether more may be sent there now."""

    def send(
        self, vhost: str, exchange: str, routing_key: str, properties: Properties, body: bytes, **options: Any
    ) -> None:
        """Keep a message, in the frame that is being made, until every shard that it goes to has it."""
