"""Verbs on the cluster that a node is in. They are about nodes: no definition is read under the lock, or changed."""

from collections.abc import Awaitable
from typing import Any

from leveret.core.errors import PreconditionFailed
from leveret.server.administration.site import Cluster, Site, Verb


def joined(site: Site) -> Cluster:
    """The cluster of a running node."""
    if site.cluster is None:
        raise PreconditionFailed("this is no running node of a cluster: name the data directory of one")
    return site.cluster


def status(site: Site) -> Awaitable[dict[str, Any]]:
    """Who is there, and who has which shard."""
    return joined(site).status()


def drain(site: Site, stay: bool = False) -> Awaitable[dict[str, Any]]:
    """Give the shards of this node to others, then stop it."""
    return joined(site).drain(stay)


def rebalance(site: Site) -> Awaitable[dict[str, Any]]:
    """Let shards go to the nodes that should have them."""
    return joined(site).rebalance()


VERBS: dict[str, Verb] = {"cluster.status": status, "cluster.drain": drain, "cluster.rebalance": rebalance}
