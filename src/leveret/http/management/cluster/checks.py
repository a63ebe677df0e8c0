"""Health of a cluster, as one of its nodes sees it."""

from __future__ import annotations

from leveret.http.management.call import Call
from leveret.http.management.cluster.asking import nodes_of, request_like, value_of
from leveret.http.management.health import SINGLE, failed, ok
from leveret.http.management.operations import cluster_of
from leveret.http.router import Answer

ALARMS = b"/api/health/checks/local-alarms"


async def alarms(call: Call) -> Answer:
    """Whether there is enough memory and disk on every node that answers."""
    answers = await nodes_of(call).everywhere(request_like(call, ALARMS))
    told = [await value_of(each) for each in answers.values()]
    found = [row for each in told for row in each.get("alarms", [])]
    return failed("There are alarms in effect", alarms=found) if found else ok()


def virtual_hosts(call: Call) -> Answer:
    """Whether somebody has every shard: the queues of one that nobody has are in no virtual host."""
    nodes = nodes_of(call)
    vacant = [home for home in nodes.homes() if nodes.owner_of(home) is None]
    return failed("Shards without an owner", shards=vacant) if vacant else ok()


def in_service(call: Call) -> Answer:
    """Whether clients should be sent to this node."""
    if cluster_of(call).draining:
        return failed("The node is being drained")
    return virtual_hosts(call)


def quorum_critical(call: Call) -> Answer:
    """Whether the shards of this node would have nobody to go to."""
    nodes = nodes_of(call)
    if len(nodes.names) == 1:
        return ok(reason=SINGLE)
    if cluster_of(call).successors:
        return ok()
    return failed("No other node can be reached that would take the shards of this one", node=nodes.name)
