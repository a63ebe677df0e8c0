"""Verbs on the cluster that a node is in. They are about nodes: no definition is read under the lock, or changed."""

from collections.abc import Awaitable
from typing import Any

from leveret.core.errors import InvalidArgument, PreconditionFailed
from leveret.server.administration.context import ClusterVerbs, Verb, VerbContext


def joined(context: VerbContext) -> ClusterVerbs:
    """The cluster of a running node."""
    if context.cluster is None:
        raise PreconditionFailed("this is no running node of a cluster: name the data directory of one by --data")
    return context.cluster


def status(context: VerbContext) -> Awaitable[dict[str, Any]]:
    """Who is there, and who has which shard."""
    return joined(context).status()


def examine(context: VerbContext) -> Awaitable[dict[str, Any]]:
    """The same, and how the nodes were set up."""
    return joined(context).examine()


def drain(context: VerbContext, stay: bool = False) -> Awaitable[dict[str, Any]]:
    """Give the shards of this node to others, then stop it."""
    return joined(context).drain(stay)


def rebalance(context: VerbContext) -> Awaitable[dict[str, Any]]:
    """Let shards go to the nodes that should have them."""
    return joined(context).rebalance()


def add_shard_group(context: VerbContext, url: str, shards: int | None = None) -> Awaitable[dict[str, Any]]:
    """Add a database, and let some shards go there: so many, or its fair share."""
    if shards is not None and shards < 0:
        raise InvalidArgument(f"{shards} shards cannot be moved: give 0 or more")
    return joined(context).add_shard_group(url, shards)


def move_shard(context: VerbContext, shard: int, group: int) -> Awaitable[dict[str, Any]]:
    """Move one shard to another group."""
    return joined(context).move_shard(shard, group)


def move_catalog(context: VerbContext, group: int) -> Awaitable[dict[str, Any]]:
    """Let another group have the definitions."""
    return joined(context).move_catalog(group)


def remove_shard_group(context: VerbContext, group: int) -> Awaitable[dict[str, Any]]:
    """Take a database that has nothing any more off the list."""
    return joined(context).remove_shard_group(group)


def adopt(context: VerbContext) -> Awaitable[dict[str, Any]]:
    """Let definitions that are older than shards have what these have."""
    return joined(context).settle(discard=False)


def discard(context: VerbContext) -> Awaitable[dict[str, Any]]:
    """Let shards lose what definitions that are older than they do not know, with the messages."""
    return joined(context).settle(discard=True)


VERBS: dict[str, Verb] = {
    "cluster.status": status,
    "cluster.examine": examine,
    "cluster.drain": drain,
    "cluster.rebalance": rebalance,
    "cluster.add-shard-group": add_shard_group,
    "cluster.move-shard": move_shard,
    "cluster.move-catalog": move_catalog,
    "cluster.remove-shard-group": remove_shard_group,
    "cluster.adopt": adopt,
    "cluster.discard": discard,
}
