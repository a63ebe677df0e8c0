"""What answers requests on a node: the APIs of each shard, by name, and those of the node itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from leveret.embedded.broker import Broker
from leveret.protocols.http.server import Handler, Refuse


class Api(NamedTuple):
    """One API: its requests have their identity by then; what it raises becomes an answer by `refuse`."""

    handler: Handler
    refuse: Refuse


class Apis(Protocol):
    """The APIs of one shard."""

    by_name: Mapping[str, Api]

    def describe(self, kind: str, vhost: str, name: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """A queue or stream as an API shows it; None: the shard does not have it."""

    def close(self) -> None:
        """The shard is served no more: requests that wait for something in it are answered."""


class NoApis:
    """Of a shard that answers AMQP only."""

    by_name: Mapping[str, Api] = {}

    def describe(self, kind: str, vhost: str, name: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """No API shows its queues."""
        return None

    def close(self) -> None:
        """No request waits."""


MakeApis = Callable[[str, Broker], Apis]
"""Makes the APIs of a shard, of its id and its broker."""


def no_apis(shard_id: str, broker: Broker) -> Apis:
    """No APIs."""
    return NoApis()
