"""What operators see of a cluster and let it do: additions to RabbitMQ's API, but for the rebalancing."""

from __future__ import annotations

from leveret.protocols.http.router import Answer
from leveret.protocols.management.call import Call
from leveret.protocols.management.context import Cluster
from leveret.protocols.management.refusals import Missing, answer, done


def cluster_of(call: Call) -> Cluster:
    """The cluster of a node; a single server has none."""
    if call.site.cluster is None:
        raise Missing()
    return call.site.cluster


async def status(call: Call) -> Answer:
    """Who is there, and who has which shard; on a single server none."""
    if call.site.cluster is None:
        nothing: dict[str, list[object]] = {name: [] for name in ("members", "groups", "shards", "doubts")}
        return answer({"cluster": None, "node": call.site.process.node, **nothing})
    return answer(await call.site.cluster.status())


async def drain(call: Call) -> Answer:
    """Give the shards of this node to others, then stop it unless it is to stay."""
    return answer(await cluster_of(call).drain(call.field("stay", bool, False)))


async def rebalance(call: Call) -> Answer:
    """Let shards go to the nodes that should have them; a single server has nothing to spread."""
    if call.site.cluster is not None:
        await call.site.cluster.rebalance()
    return done()
