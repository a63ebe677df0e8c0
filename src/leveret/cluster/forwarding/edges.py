"""The APIs that answer forwarded requests: those of each shard, by name, and those of the node itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from leveret.protocols.http.server import Handler, Refuse
from leveret.runtime.runtime import Runtime


class Api(NamedTuple):
    """One API. Its requests have their identity; `refuse` makes an answer of an error that it raises."""

    handler: Handler
    refuse: Refuse


class Apis(Protocol):
    """The APIs of one shard."""

    by_name: Mapping[str, Api]

    def describe(self, kind: str, vhost: str, name: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """A queue or stream as an API shows it; None: the shard does not have it."""

    def close(self) -> None:
        """Answer the requests that wait for something in the shard: this node serves it no more."""


class NoApis:
    """The APIs of a shard that answers AMQP only: none."""

    by_name: Mapping[str, Api] = {}

    def describe(self, kind: str, vhost: str, name: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
        """No API shows its queues."""
        return None

    def close(self) -> None:
        """No request waits."""


MakeApis = Callable[[str, Runtime], Apis]
"""Makes the APIs of a shard, given its id and its runtime."""


def no_apis(shard_id: str, runtime: Runtime) -> Apis:
    """No APIs."""
    return NoApis()
