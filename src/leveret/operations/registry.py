"""The table of all operations: what each needs, where it is done in a cluster, whether it is audited or may be re-sent.

    rule        what authorisation asks of the user, in every protocol that has the operation
    scope       shard    by the owner of the queue, stream or sink in question
                catalog  by the catalog, which all nodes have: changes are decided for all of them
                shards   by several shards, whose answers are merged
                node     by one node: the one that is named, or the one that was asked
                nodes    by all nodes, whose answers are merged
    audited     whether the audit log has it when it is done; what is refused is there in any case
    idempotent  whether a node may send it to another once more, when no answer came
    handler     does it for administrators, whichever adapter asks; others are done by each protocol in its own way

Names are AMQP's where AMQP has the operation. A singular noun is of clients, `queue.declare`; a plural one of
administrators, `queues.list`. An operation that is not in the table is refused: a new one is open to no user by
oversight.
"""

from leveret.core.errors import AccessRefused
from leveret.operations import (
    alerts,
    credentials,
    definitions,
    journal,
    policies,
    reservations,
    server,
    streams,
    users,
    vhosts,
)
from leveret.operations.operation import (
    ADMINISTERED,
    MANAGED,
    MANAGED_VHOST,
    MONITORED,
    MONITORED_VHOST,
    Operation,
    acts,
    changes,
    looks,
)
from leveret.security.authorisation import ACCESSES, KeyRight, Right, Role, Rule

KINDS: tuple[Role, ...] = ("queue", "exchange")
_DEAD: frozenset[Role] = frozenset(("dead_letter_exchange", "dead_letter_queue"))
ENTERED = Rule()
READ_QUEUE, WRITE_QUEUE = Rule((Right("read", "queue"),)), Rule((Right("write", "queue"),))
CONFIGURE_QUEUE = Rule((Right("configure", "queue"),))
CONFIGURE_EXCHANGE, READ_EXCHANGE = Rule((Right("configure", "exchange"),)), Rule((Right("read", "exchange"),))
DECLARE_EXCHANGE = Rule(
    (
        Right("configure", "exchange"),
        Right("read", "exchange", frozenset(("alternate_exchange",))),
        Right("write", "alternate_exchange"),
    )
)
QUEUE_SETTINGS = Rule(
    (
        Right("configure", "queue"),
        Right("read", "queue", _DEAD),
        Right("write", "dead_letter_exchange"),
        Right("write", "dead_letter_queue"),
    )
)
BIND_QUEUE = Rule((Right("write", "queue"), Right("read", "exchange")), KeyRight("read", "exchange"))
BIND_EXCHANGE = Rule((Right("write", "destination"), Right("read", "source")), KeyRight("read", "source"))
PUBLISH = Rule((Right("write", "exchange"),), KeyRight("write", "exchange"))
REDRIVE = Rule((Right("read", "queue"), Right("write", "destination_queue")))
SEE_QUEUE, SEE_EXCHANGE = (Rule(tuple(Right(access, role) for access in ACCESSES), any_right=True) for role in KINDS)
CLIENTS = (
    *acts("node", ENTERED, ("connection.open",)),
    # Exchanges
    *changes("catalog", DECLARE_EXCHANGE, ("exchange.declare",)),
    *looks("catalog", ENTERED, ("exchange.declare-passive",)),
    *changes("catalog", CONFIGURE_EXCHANGE, ("exchange.delete",)),
    *changes("catalog", BIND_EXCHANGE, ("exchange.bind", "exchange.unbind")),
    *looks("catalog", READ_EXCHANGE, ("exchange.look",)),
    *looks("catalog", SEE_EXCHANGE, ("exchange.see",)),
    *looks("catalog", ENTERED, ("exchange.list",)),
    # Queues; a stream is a queue
    *changes("catalog", QUEUE_SETTINGS, ("queue.declare",)),
    *looks("catalog", ENTERED, ("queue.declare-passive",)),
    *changes("catalog", QUEUE_SETTINGS, ("queue.update",)),
    *changes("shard", CONFIGURE_QUEUE, ("queue.delete",)),  # which knows whether it is empty; then everywhere
    *changes("catalog", BIND_QUEUE, ("queue.bind", "queue.unbind")),
    *looks("shard", READ_QUEUE, ("queue.look",)),
    *looks("catalog", SEE_QUEUE, ("queue.see",)),
    *looks("shard", SEE_QUEUE, ("queue.attributes",)),
    *looks("catalog", ENTERED, ("queue.list", "stream.list")),  # their shards describe them
    *changes("catalog", CONFIGURE_QUEUE, ("queue.pause", "queue.tag")),
    *changes("catalog", CONFIGURE_QUEUE, ("queue.grant",)),  # and whatever it grants: see the adapter for SQS
    # Messages
    *acts("shards", PUBLISH, ("basic.publish",)),  # in every shard that has a queue for the message
    *acts("shard", WRITE_QUEUE, ("queue.send",)),
    *acts("shard", READ_QUEUE, ("basic.get",), idempotent=True),  # what the first one has taken is redelivered
    *acts("shard", READ_QUEUE, ("queue.get", "basic.consume")),
    *acts("shard", READ_QUEUE, ("queue.settle",)),  # by a receipt, which any client may have
    *acts("shard", ENTERED, ("basic.ack", "basic.nack", "basic.reject", "basic.recover", "basic.cancel")),
    *looks("shard", READ_QUEUE, ("queue.browse",)),
    *changes("shard", READ_QUEUE, ("queue.purge",)),
    *changes("shard", CONFIGURE_QUEUE, ("queue.discard",)),
    *changes("shard", REDRIVE, ("queue.redrive",)),
    *looks("shard", REDRIVE, ("queue.list-moves",)),
    *acts("shard", READ_QUEUE, ("queue.reserve",)),
    # Streams
    *acts("shard", WRITE_QUEUE, ("stream.append",)),
    *looks("shard", READ_QUEUE, ("stream.read",)),
    *acts("shard", READ_QUEUE, ("group.join",)),
    *changes("shard", CONFIGURE_QUEUE, ("group.change",)),
    # Bulk ingest; its rows are publishes
    *acts("shard", ENTERED, ("ingest.stage",), idempotent=True),
    *looks("shards", ENTERED, ("ingest.list",)),
    Operation("ingest.forget", ENTERED, "shard", audited=True, idempotent=True),
)
SURFACES = (
    *looks("node", MONITORED, ("metrics.read",)),
    *acts("node", ADMINISTERED, ("operator.run",)),
    *acts("node", MANAGED, ("console.use",)),
)
"""What a whole protocol needs."""
HEALTH = (
    *looks("node", Rule(login=False), ("auth.look", "health.ready")),  # of which load balancers ask the second
    *looks("node", MANAGED, ("health.node",)),
    *looks("nodes", MANAGED, ("health.cluster",)),
    *looks("node", MONITORED, ("health.leaders",)),
    *looks("node", MONITORED_VHOST, ("health.leaders-of-vhost",)),
    *looks("catalog", MANAGED_VHOST, ("health.aliveness",)),
)
CONNECTIONS = (
    *looks("nodes", MANAGED, ("connections.list", "connections.look", "channels.list", "channels.look")),
    *looks("shards", MANAGED, ("consumers.list",)),
    *looks("nodes", MANAGED_VHOST, ("connections.list-vhost", "channels.list-vhost")),
    *changes("nodes", MANAGED, ("connections.close",)),  # its own, or any if it is a monitor
    *looks("nodes", ADMINISTERED, ("connections.list-user",)),
    *changes("nodes", ADMINISTERED, ("connections.close-user",)),
)
TOPOLOGY = (
    *looks("catalog", MANAGED_VHOST, ("exchanges.list", "exchanges.look", "exchanges.probe", "routing.look")),
    *looks("catalog", MANAGED_VHOST, ("bindings.list", "bindings.look")),
    *looks("catalog", MANAGED_VHOST, ("queues.list",)),  # their shards describe them
    *looks("shards", MANAGED_VHOST, ("dead-letters.list", "scheduled.list")),
    *looks("shard", MANAGED_VHOST, ("queues.look",)),
    *changes("catalog", ADMINISTERED, ("queues.act",)),
)
RESOURCES = (server, users, credentials, vhosts, policies, streams, reservations, alerts, definitions, journal)
"""What administrators do, by resource."""

OPERATIONS: dict[str, Operation] = {
    each.name: each
    for each in (
        *CLIENTS,
        *SURFACES,
        *HEALTH,
        *CONNECTIONS,
        *TOPOLOGY,
        *(row for resource in RESOURCES for row in resource.OPERATIONS),
    )
}


def rule_of(name: str) -> Rule:
    """What an operation needs; one that is not in the table is refused."""
    operation = OPERATIONS.get(name)
    if operation is None:
        raise AccessRefused(f"no user may call '{name}': it is not in the table of operations")
    return operation.rule
