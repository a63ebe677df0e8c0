"""What a sink needs of the shards beside its own."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

from leveret.core.broker import Broker
from leveret.core.properties import Properties


class ShardRoute(Protocol):
    """The way of messages that differ in their bodies only; under the lock of the own shard."""

    def room(self) -> int:
        """How many more may be sent now."""

    def send(self, body: bytes, **options: Any) -> None:
        """Keep a message, in the commit batch that is being made, until every queue that it goes to has it."""


class OtherShards(Protocol):
    """The other shards of a cluster; under the lock of the own one, unless told otherwise."""

    def definitions(self) -> AbstractContextManager[Broker]:
        """A copy of the exchanges, queues and bindings of all shards, under a lock; with or without that of a shard."""

    def shard_route(
        self, vhost: str, exchange: str, routing_key: str, keys: list[str], properties: Properties
    ) -> ShardRoute | None:
        """The way of messages to queues of other shards, as they are now; None: there are no such queues."""
