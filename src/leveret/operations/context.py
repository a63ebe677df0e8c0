"""What the handlers of operations work on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from leveret.core.broker import Broker
from leveret.observability.alerting.service import Alerting
from leveret.observability.audit import Audit
from leveret.runtime.runtime import Runtime
from leveret.security.access import Access

OPERATOR = "(operator)"
"""The name in the audit log for verbs of the operator who runs the server."""

DetailsCheck = Callable[[str, dict[str, str], dict[str, str]], dict[str, str]]
"""Checks the tags and the attributes of a queue that only SQS knows; gives the attributes that are kept."""


class ClusterVerbs(Protocol):
    """The cluster that a node is in."""

    async def status(self) -> dict[str, Any]: ...  # who is there, and who has which shard
    async def examine(self) -> dict[str, Any]: ...  # the same, and how the nodes were set up
    async def drain(self, stay: bool = False) -> dict[str, Any]:
        """Give all shards of the node to others, then stop it unless it is to stay."""

    async def rebalance(self) -> dict[str, Any]: ...  # let shards go to the nodes that should have them
    async def add_shard_group(self, url: str, shards: int | None = None) -> dict[str, Any]:
        """Add a database, and let some shards go there."""

    async def move_catalog(self, group: int) -> dict[str, Any]: ...  # let another database have the definitions
    async def remove_shard_group(self, group: int) -> dict[str, Any]:
        """Take a database that has nothing any more off the list."""

    async def settle(self, discard: bool) -> dict[str, Any]:
        """Let older definitions have what shards have, or let shards lose it."""

    async def move_shard(self, shard: int, group: int) -> dict[str, Any]: ...  # move one shard to another group


class RemoteVerbs(Protocol):
    """Does operations on what the shards and nodes of a cluster have for themselves."""

    def has(self, verb: str) -> bool: ...  # whether an operation is one of these
    async def perform(self, context: "OperationContext", verb: str, arguments: dict[str, Any]) -> Any:
        """What an operation gives."""


@dataclass(frozen=True, slots=True)
class OperationContext:
    """A core and who may use it; operations run under the lock of the core.

    `facts` are what else `status` tells; `alerts` looks at queues where a server runs. `cluster` is that of a node,
    whose core has no messages: `shards` have them. `runtime` is around the core of a journal; `staged_keys` are the
    keys of what bulk ingest has staged. `check_details` is that of SQS.
    """

    core: Broker
    access: Access
    facts: Callable[[], dict[str, Any]] = dict
    alerts: Alerting | None = None
    shards: Callable[[], Sequence[Runtime]] | None = None
    cluster: ClusterVerbs | None = None
    remote: RemoteVerbs | None = None
    audit: Audit | None = None
    runtime: Runtime | None = None
    staged_keys: Callable[[], Mapping[str, int]] = dict
    check_details: DetailsCheck | None = None
