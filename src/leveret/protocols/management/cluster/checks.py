"""Health of a cluster, as one of its nodes sees it."""

from __future__ import annotations

from leveret.core.queue import Queue
from leveret.protocols.http.router import Answer
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.cluster.asking import nodes_of, request_like, value_of
from leveret.protocols.management.health import (
    IN_CLUSTER,
    SINGLE,
    failed,
    ok,
    pattern_of,
    queue_leaders,
    ready_to_serve_clients,
)
from leveret.protocols.management.operations import cluster_of

OK = 200
QUORUM = "quorum"
LISTED_MAX = 1_000  # queues in one answer
ALARMS = b"/api/health/checks/local-alarms"


async def alarms(call: ManagementCall) -> Answer:
    """Whether there is enough memory and disk on every node that answers."""
    answers = await nodes_of(call).everywhere(request_like(call, ALARMS))
    told = [await value_of(each) for each in answers.values()]
    found = [row for each in told for row in each.get("alarms", [])]
    return failed(IN_CLUSTER, alarms=found) if found else ok()


def virtual_hosts(call: ManagementCall) -> Answer:
    """Whether every shard has an owner: the queues of one without are in no virtual host."""
    nodes = nodes_of(call)
    vacant = [shard_id for shard_id in nodes.shard_ids() if nodes.owner_of(shard_id) is None]
    return failed("Shards without an owner", shards=vacant) if vacant else ok()


def in_service(call: ManagementCall) -> Answer:
    """Whether clients should be sent to this node."""
    if cluster_of(call).draining:
        return failed("The node is being drained")
    return virtual_hosts(call)


def ready(call: ManagementCall) -> Answer:
    """Whether clients of AMQP should be sent to this node: it is in service, listens, and has room."""
    served = in_service(call)
    return served if served.status != OK else ready_to_serve_clients(call)


def leaders(call: ManagementCall) -> Answer:
    """The quorum queues that no node can serve, because their shard has no owner."""
    nodes, wanted, vhost = nodes_of(call), pattern_of(call), call.request.parameters.get("vhost")
    answer = queue_leaders(call)  # refuses a virtual host that does not exist
    with call.context.async_broker.runtime as core:
        found = [
            {"name": queue.name, "readable_name": readable(queue), "virtual_host": queue.vhost, "type": QUORUM}
            for virtual_host in core.topology.vhosts.values()
            if vhost in (None, virtual_host.name)
            for queue in virtual_host.queues.values()
            if queue.policy.queue_type == QUORUM
            and wanted.matches(queue.name)
            and nodes.owner_of(nodes.shard_id_of(queue.vhost, queue.name)) is None
        ]
    return failed("Detected quorum queues without an elected leader", queues=found[:LISTED_MAX]) if found else answer


def readable(queue: Queue) -> str:
    """How RabbitMQ names a queue in text."""
    return f"queue '{queue.name}' in vhost '{queue.vhost}'"


def quorum_critical(call: ManagementCall) -> Answer:
    """Whether the shards of this node would have no node to go to."""
    nodes = nodes_of(call)
    if len(nodes.names) == 1:
        return ok(reason=SINGLE)
    if cluster_of(call).successors:
        return ok()
    return failed("No other node can be reached that would take the shards of this one", node=nodes.name)
