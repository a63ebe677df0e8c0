"""What operators see of a cluster and let it do: additions to RabbitMQ's API, but for the rebalancing."""

from __future__ import annotations

from leveret.protocols.http.router import Answer
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.context import ClusterOperations
from leveret.protocols.management.refusals import Missing, answer, done


def cluster_of(call: ManagementCall) -> ClusterOperations:
    """The cluster of a node; a single server has none."""
    if call.context.cluster is None:
        raise Missing()
    return call.context.cluster


async def status(call: ManagementCall) -> Answer:
    """Who is there, and who has which shard; on a single server none."""
    if call.context.cluster is None:
        nothing: dict[str, list[object]] = {name: [] for name in ("members", "groups", "shards", "doubts")}
        return answer({"cluster": None, "node": call.context.process.node, **nothing})
    return answer(await call.context.cluster.status())


async def drain(call: ManagementCall) -> Answer:
    """Give the shards of this node to others, then stop it unless it is to stay."""
    return answer(await cluster_of(call).drain(call.field("stay", bool, False)))


async def rebalance(call: ManagementCall) -> Answer:
    """Let shards go to the nodes that should have them; a single server has nothing to spread."""
    if call.context.cluster is not None:
        await call.context.cluster.rebalance()
    return done()
