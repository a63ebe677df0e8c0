"""Health checks: 200 when all is well, 503 with the reason otherwise."""

from __future__ import annotations

from leveret.core.broker import Broker
from leveret.core.patterns import Pattern, check_length, pattern
from leveret.core.properties import Properties
from leveret.core.queue import Queue
from leveret.protocols.http.cluster import Cluster, awaited
from leveret.protocols.http.response import Answer, Answered
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.context import Row
from leveret.protocols.management.listing import PATTERN_CHARS_MAX
from leveret.protocols.management.overview import protocol_of
from leveret.protocols.management.refusals import BadRequest, Missing, answer
from leveret.protocols.net.admission import ConnectionBudget

OK = 200
QUORUM = "quorum"
LISTED_MAX = 1_000  # queues in one answer
UNITS_MS = {"days": 86_400_000, "weeks": 604_800_000, "months": 2_592_000_000, "years": 31_536_000_000}
TEST_QUEUE = "aliveness-test"
SINGLE = "single node cluster"
IN_CLUSTER = "There are alarms in effect in the cluster"
NO_LISTENER = "No active listener"
LIMIT_REACHED = "node connection limit is reached"
AMQP = {"amqp", "amqp/ssl"}
SPELLINGS = {"amqp091": "amqp", "amqp0.9.1": "amqp", "amqps": "amqp/ssl"}
DIGITS_MAX = 18  # of a port: RabbitMQ has no limit, and says that there is no listener
WITHIN_DIGITS_MAX = 4


def ok(**facts: object) -> Answer:
    """All is well."""
    return answer({"status": "ok", **facts})


def failed(reason: str, **facts: object) -> Answer:
    """Something is not."""
    return answer({"status": "failed", "reason": reason, **facts}, 503)


def in_alarm(call: ManagementCall) -> list[str]:
    """The resources of this node that are in alarm."""
    alarm = call.context.process.alarm()
    return [] if alarm is None else [what for what in ("memory", "disk") if what in alarm]


def _alarms(call: ManagementCall, reason: str) -> Answer:
    node = call.context.process.node
    found = [{"node": node, "resource": what} for what in in_alarm(call)]
    return failed(reason, alarms=found) if found else ok()


def alarms(call: ManagementCall) -> Answer:
    """Whether there is enough memory and disk."""
    return _alarms(call, IN_CLUSTER)


def local_alarms(call: ManagementCall) -> Answer:
    """The same for this node."""
    return _alarms(call, "There are alarms in effect on the node")


def node_health(call: ManagementCall) -> Answer:
    """The check of RabbitMQ 3.6, which names alarms as Erlang terms."""
    node = call.context.process.node
    if call.request.parameters.get("node", node) != node:
        raise Missing()
    found = ",".join(f"{{resource_limit,{what},{node}}}" for what in in_alarm(call))
    return failed(f"resource alarm(s) in effect:[{found}]") if found else ok()


def port_listener(call: ManagementCall) -> Answer:
    """Whether the server listens on a port."""
    text = call.named("port")
    if not (text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX):
        raise BadRequest("Invalid port")
    ports = sorted({each.port for each in call.context.process.listening()})
    if int(text) in ports:
        return ok(port=int(text))
    return failed(NO_LISTENER, missing=int(text), ports=ports)


def protocols_of(call: ManagementCall) -> list[str]:
    """The protocols that the server listens for."""
    return sorted({protocol_of(each) for each in call.context.process.listening()})


def protocol_listener(call: ManagementCall) -> Answer:
    """Whether the server listens for a protocol, which the answer names as RabbitMQ does."""
    wanted = SPELLINGS.get(call.named("protocol"), call.named("protocol"))
    known = protocols_of(call)
    return ok(protocol=wanted) if wanted in known else failed(NO_LISTENER, missing=wanted, protocols=known)


def amqp_budget(call: ManagementCall) -> ConnectionBudget:
    """The connections of AMQP clients, and how many there may be."""
    return next(each for each in call.context.process.budgets if each.listener == "amqp")


def connection_limit(call: ManagementCall) -> Answer:
    """Whether the node accepts more connections of AMQP clients."""
    budget = amqp_budget(call)
    facts = {"limit": budget.connections_max, "connections": budget.connections}
    return ok(**facts) if budget.connections < budget.connections_max else failed(LIMIT_REACHED, **facts)


def ready_to_serve_clients(call: ManagementCall) -> Answer:
    """Whether clients of AMQP should be sent to this node: it is in service, listens, and has room."""
    served = in_service(call)
    if served.status != OK:
        return served
    if not AMQP & set(protocols_of(call)):
        return failed("no active listeners for AMQP/AMQPS")
    budget = amqp_budget(call)
    if budget.connections >= budget.connections_max:
        return failed(LIMIT_REACHED, connections=budget.connections)
    return served


def metadata_store(call: ManagementCall) -> Answer:
    """Whether the definitions are read: the server listens only after that."""
    return ok()


def metadata_store_with_data(call: ManagementCall) -> Answer:
    """Whether there are definitions: at least a virtual host."""
    with call.runtime as core:
        found = bool(core.topology.vhosts)
    return ok() if found else failed("Metadata store has not yet been initialized: it reports to have no virtual hosts")


def queue_leaders(call: ManagementCall) -> Answer:
    """Whether the quorum queues of a virtual host, or of all, have a leader: in a cluster, the owner of their shard."""
    wanted, nodes = pattern_of(call), call.context.nodes
    with call.runtime as core:
        named = "vhost" in call.request.parameters
        virtual_hosts = [call.virtual_host(core)] if named else list(core.topology.vhosts.values())
        if nodes is None:
            return ok()
        found = [
            {"name": queue.name, "readable_name": readable(queue), "virtual_host": queue.vhost, "type": QUORUM}
            for virtual_host in virtual_hosts
            for queue in virtual_host.queues.values()
            if queue.policy.queue_type == QUORUM
            and wanted.matches(queue.name)
            and nodes.owner_of(nodes.shard_id_of(queue.vhost, queue.name)) is None
        ]
    return failed("Detected quorum queues without an elected leader", queues=found[:LISTED_MAX]) if found else ok()


def readable(queue: Queue) -> str:
    """The name of a queue in text, as RabbitMQ has it."""
    return f"queue '{queue.name}' in vhost '{queue.vhost}'"


def pattern_of(call: ManagementCall) -> Pattern:
    """The pattern for names of queues that the path has; without one, all queues."""
    text = call.request.parameters.get("pattern", ".*")
    return pattern(check_length("pattern", text, PATTERN_CHARS_MAX))


def virtual_hosts(call: ManagementCall) -> Answer:
    """Whether all virtual hosts run: they do unless the queues of a shard have no owner."""
    nodes = call.context.nodes
    vacant = [] if nodes is None else [each for each in nodes.shard_ids() if nodes.owner_of(each) is None]
    with call.runtime:
        return failed("Shards without an owner", shards=vacant) if vacant else ok()


def in_service(call: ManagementCall) -> Answer:
    """Whether clients should be sent to this node."""
    if call.context.cluster is not None and call.context.cluster.draining:
        return failed("The node is being drained")
    return virtual_hosts(call)


def quorum_critical(call: ManagementCall) -> Answer:
    """Whether the shards of this node would have no node to go to."""
    nodes, cluster = call.context.nodes, call.context.cluster
    if nodes is None or cluster is None or len(nodes.names) == 1:
        return single_node(call)
    if cluster.successors:
        return ok()
    return failed("No other node can be reached that would take the shards of this one", node=nodes.name)


def single_node(call: ManagementCall) -> Answer:
    """Whether others depend on this node: there are none."""
    return ok(reason=SINGLE)


def certificate_expiration(call: ManagementCall) -> Answer:
    """Whether the certificate is valid for some time more."""
    within, unit = call.named("within"), call.named("unit")
    if not (within.isascii() and within.isdigit() and len(within) <= WITHIN_DIGITS_MAX):
        raise BadRequest("Invalid expiration value.")
    if unit not in UNITS_MS:
        raise BadRequest(f"Time unit not recognised. Supported units: {', '.join(UNITS_MS)}.")
    process = call.context.process
    with call.runtime as core:
        last_ms = core.now_ms + int(within) * UNITS_MS[unit]
    ends_ms = process.certificate_ends_ms()
    expired: list[Row] = [] if ends_ms is None or ends_ms > last_ms else [{"expires_on": ends_ms}]
    lists = {name: at_ms for name, at_ms in process.lists_end_ms().items() if at_ms <= last_ms}
    expired += [{"revocation_list": name, "expires_on": at_ms} for name, at_ms in lists.items()]
    if not expired:
        return ok()
    return failed("Certificates expiring", expired=[{"node": process.node, **row} for row in expired])


def test_queue(call: ManagementCall, core: Broker) -> Queue:
    """The queue for the test of a virtual host, made if need be; under the lock."""
    virtual_host = call.virtual_host(core)
    for verb in ("queue.declare", "basic.get"):
        call.authorize(verb, {"queue": TEST_QUEUE})
    call.authorize("basic.publish", {"exchange": ""})
    queue: Queue = virtual_host.queues.get(TEST_QUEUE) or core.declare_queue(
        virtual_host.name, TEST_QUEUE, durable=False
    )
    core.check_owner(queue, None)
    return queue


def aliveness(call: ManagementCall) -> Answered:
    """Send a message to a queue of its own and take it again."""
    if call.context.nodes is not None:
        return _aliveness_of_shard(call, call.context.nodes)

    def test(core: Broker) -> Answer:
        queue = test_queue(call, core)
        core.publish_through(queue.vhost, "", TEST_QUEUE, Properties(), b"test_message", persistent=False)
        for held in queue.take(1):
            queue.ack(held, held.lease)
            return ok()
        return failed("the message did not arrive")

    return call.change(test)


async def _aliveness_of_shard(call: ManagementCall, nodes: Cluster) -> Answer:
    """The same in a cluster: the catalog gets the queue, and its shard the message."""

    def made(core: Broker) -> Answer:
        test_queue(call, core)
        return ok()

    await awaited(call.change(made))
    shard_id = nodes.shard_id_of(call.named("vhost"), TEST_QUEUE)
    return await awaited(nodes.ask(shard_id, call.request, resend=True))
