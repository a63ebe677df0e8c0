"""Verbs on the cluster that a node is in. They are about nodes: no definition is read under the lock, or changed."""

from collections.abc import Awaitable
from typing import Any

from leveret.core.errors import InvalidArgument, PreconditionFailed
from leveret.server.administration.context import Cluster, Site, Verb


def joined(site: Site) -> Cluster:
    """The cluster of a running node."""
    if site.cluster is None:
        raise PreconditionFailed("this is no running node of a cluster: name the data directory of one by --data")
    return site.cluster


def status(site: Site) -> Awaitable[dict[str, Any]]:
    """Who is there, and who has which shard."""
    return joined(site).status()


def examine(site: Site) -> Awaitable[dict[str, Any]]:
    """The same, and how the nodes were set up."""
    return joined(site).examine()


def drain(site: Site, stay: bool = False) -> Awaitable[dict[str, Any]]:
    """Give the shards of this node to others, then stop it."""
    return joined(site).drain(stay)


def rebalance(site: Site) -> Awaitable[dict[str, Any]]:
    """Let shards go to the nodes that should have them."""
    return joined(site).rebalance()


def add_shard_group(site: Site, url: str, shards: int | None = None) -> Awaitable[dict[str, Any]]:
    """Add a database, and let some shards go there: so many, or its fair share."""
    if shards is not None and shards < 0:
        raise InvalidArgument(f"{shards} shards cannot be moved: give 0 or more")
    return joined(site).add_shard_group(url, shards)


def move_shard(site: Site, shard: int, group: int) -> Awaitable[dict[str, Any]]:
    """Move one shard to another group."""
    return joined(site).move_shard(shard, group)


def move_catalog(site: Site, group: int) -> Awaitable[dict[str, Any]]:
    """Let another group have the definitions."""
    return joined(site).move_catalog(group)


def remove_shard_group(site: Site, group: int) -> Awaitable[dict[str, Any]]:
    """Take a database that has nothing any more off the list."""
    return joined(site).remove_shard_group(group)


def adopt(site: Site) -> Awaitable[dict[str, Any]]:
    """Let definitions that are older than shards have what these have."""
    return joined(site).settle(discard=False)


def discard(site: Site) -> Awaitable[dict[str, Any]]:
    """Let shards lose what definitions that are older than they do not know, with the messages."""
    return joined(site).settle(discard=True)


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
