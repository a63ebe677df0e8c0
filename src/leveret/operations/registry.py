"""The table of all operations: what each needs, where it is done in a cluster, whether it is audited or may be re-sent.

    rule        what authorisation asks of the user, in every protocol that has the operation
    scope       shard    by the owner of the queue, stream or sink in question
                catalog  by the catalog, which all nodes have: changes are decided for all of them
                node     by one node: the one that is named, or the one that was asked
                cluster  by several shards or nodes, whose answers are put together
    audited     whether the audit log has it when it is done; what is refused is there in any case
    idempotent  whether a node may send it to another once more, when no answer came

Names are AMQP's where AMQP has the operation. A singular noun is of clients, `queue.declare`; a plural one of
administrators, `queues.list`. An operation that is not in the table is refused: a new one is open to no user by
oversight.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from leveret.core.errors import AccessRefused
from leveret.security.authorisation import ACCESSES, OPERATOR, KeyRight, Right, Role, Rule, Tag

Scope = Literal["shard", "catalog", "node", "cluster"]
SCOPES: tuple[Scope, ...] = get_args(Scope)


@dataclass(frozen=True, slots=True)
class Operation:
    """A row of the table."""

    name: str
    rule: Rule
    scope: Scope
    audited: bool = False
    idempotent: bool = False


def looks(scope: Scope, rule: Rule, *names: str) -> Iterable[Operation]:
    """Operations that change nothing."""
    return (Operation(name, rule, scope, idempotent=True) for name in names)


def changes(scope: Scope, rule: Rule, *names: str) -> Iterable[Operation]:
    """Operations on definitions, settings or many messages: the audit log has them."""
    return (Operation(name, rule, scope, audited=True) for name in names)


def acts(scope: Scope, rule: Rule, *names: str, idempotent: bool = False) -> Iterable[Operation]:
    """Operations on messages, of which applications do many."""
    return (Operation(name, rule, scope, idempotent=idempotent) for name in names)


def _any(role: Role) -> Rule:
    return Rule(tuple(Right(access, role) for access in ACCESSES), any_right=True)


def _tagged(tag: Tag, entry: Tag | None = None) -> Rule:
    return Rule(tag=tag, entry=entry or tag)


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
SEE_QUEUE, SEE_EXCHANGE = _any("queue"), _any("exchange")
MANAGED, MONITORED, ADMINISTERED = _tagged(OPERATOR), _tagged("monitoring"), _tagged("administrator")
MANAGED_VHOST, MONITORED_VHOST = _tagged(OPERATOR, "administrator"), _tagged(OPERATOR, "monitoring")
POLICIES = _tagged("policymaker", "administrator")

CLIENTS = (
    *acts("node", ENTERED, "connection.open"),
    # Exchanges
    *changes("catalog", DECLARE_EXCHANGE, "exchange.declare"),
    *looks("catalog", ENTERED, "exchange.declare-passive"),
    *changes("catalog", CONFIGURE_EXCHANGE, "exchange.delete"),
    *changes("catalog", BIND_EXCHANGE, "exchange.bind", "exchange.unbind"),
    *looks("catalog", READ_EXCHANGE, "exchange.look"),
    *looks("catalog", SEE_EXCHANGE, "exchange.see"),
    *looks("catalog", ENTERED, "exchange.list"),
    # Queues; a stream is a queue
    *changes("catalog", QUEUE_SETTINGS, "queue.declare"),
    *looks("catalog", ENTERED, "queue.declare-passive"),
    *changes("catalog", QUEUE_SETTINGS, "queue.update"),
    *changes("shard", CONFIGURE_QUEUE, "queue.delete"),  # which knows whether it is empty; then everywhere
    *changes("catalog", BIND_QUEUE, "queue.bind", "queue.unbind"),
    *looks("shard", READ_QUEUE, "queue.look"),
    *looks("catalog", SEE_QUEUE, "queue.see"),
    *looks("shard", SEE_QUEUE, "queue.attributes"),
    *looks("cluster", ENTERED, "queue.list", "stream.list"),
    *changes("catalog", CONFIGURE_QUEUE, "queue.pause", "queue.tag"),
    *changes("catalog", CONFIGURE_QUEUE, "queue.grant"),  # and whatever it grants: see the adapter for SQS
    # Messages
    *acts("cluster", PUBLISH, "basic.publish"),  # in every shard that has a queue for the message
    *acts("shard", WRITE_QUEUE, "queue.send"),
    *acts("shard", READ_QUEUE, "basic.get", idempotent=True),  # what the first one has taken is redelivered
    *acts("shard", READ_QUEUE, "queue.get", "basic.consume"),
    *acts("shard", READ_QUEUE, "queue.settle"),  # by a receipt, which any client may have
    *acts("shard", ENTERED, "basic.ack", "basic.nack", "basic.reject", "basic.recover", "basic.cancel"),
    *looks("shard", READ_QUEUE, "queue.browse"),
    *changes("shard", READ_QUEUE, "queue.purge"),
    *changes("shard", CONFIGURE_QUEUE, "queue.discard"),
    *changes("shard", REDRIVE, "queue.redrive"),
    *looks("shard", REDRIVE, "queue.list-moves"),
    *acts("shard", READ_QUEUE, "queue.reserve"),
    # Streams
    *acts("shard", WRITE_QUEUE, "stream.append"),
    *looks("shard", READ_QUEUE, "stream.read"),
    *acts("shard", READ_QUEUE, "group.join"),
    *changes("shard", CONFIGURE_QUEUE, "group.change"),
    # Bulk ingest; its rows are publishes
    *acts("shard", ENTERED, "ingest.stage", idempotent=True),
    *looks("cluster", ENTERED, "ingest.list"),
    Operation("ingest.forget", ENTERED, "shard", audited=True, idempotent=True),
)
SURFACES = (
    *looks("node", MONITORED, "metrics.read"),
    *acts("node", ADMINISTERED, "operator.run"),
    *acts("node", MANAGED, "console.use"),
)
"""What a whole protocol needs."""
SERVER = (
    *looks("cluster", MANAGED, "overview.look"),
    *looks("node", ADMINISTERED, "status"),
    *looks("node", MANAGED, "extensions.list", "users.who", "users.hash-password"),
    *looks("catalog", MANAGED, "cluster-name.look"),
    *changes("catalog", ADMINISTERED, "cluster-name.set"),
    *looks("cluster", MONITORED, "nodes.list"),
    *looks("node", MONITORED, "nodes.look"),
    *looks("cluster", MONITORED, "reports.list", "reports.look"),
    *looks("catalog", ADMINISTERED, "definitions.export"),
    *changes("catalog", ADMINISTERED, "definitions.import"),
    *looks("node", ADMINISTERED, "feature-flags.list", "deprecated-features.list"),
    *changes("node", ADMINISTERED, "feature-flags.enable"),
    *looks("cluster", ADMINISTERED, "audit.list"),
    *looks("node", ADMINISTERED, "audit.heads"),
    *looks("node", MONITORED, "cluster.status"),
    *looks("node", ADMINISTERED, "cluster.examine"),
    *changes("node", ADMINISTERED, "cluster.drain", "cluster.rebalance", "cluster.adopt", "cluster.discard"),
    *changes("node", ADMINISTERED, "cluster.add-shard-group", "cluster.remove-shard-group"),
    *changes("node", ADMINISTERED, "cluster.move-shard", "cluster.move-catalog"),
    *changes("cluster", ADMINISTERED, "journal.seal", "journal.rotate-key"),
    *looks("cluster", ADMINISTERED, "journal.rotation-status"),
    *looks("node", MANAGED, "health.node"),
    *looks("cluster", MANAGED, "health.cluster"),
    *looks("cluster", MONITORED, "health.leaders"),
    *looks("cluster", MONITORED_VHOST, "health.leaders-of-vhost"),
    *looks("shard", MANAGED_VHOST, "health.aliveness"),
)
CONNECTIONS = (
    *looks("cluster", MANAGED, "connections.list", "connections.look", "channels.list", "channels.look"),
    *looks("cluster", MANAGED, "consumers.list"),
    *looks("cluster", MANAGED_VHOST, "connections.list-vhost", "channels.list-vhost"),
    *changes("cluster", MANAGED, "connections.close"),  # its own, or any if it is a monitor
    *looks("cluster", ADMINISTERED, "connections.list-user"),
    *changes("cluster", ADMINISTERED, "connections.close-user"),
)
TOPOLOGY = (
    *looks("catalog", MANAGED_VHOST, "exchanges.list", "exchanges.look", "exchanges.probe", "routing.look"),
    *looks("catalog", MANAGED_VHOST, "bindings.list", "bindings.look"),
    *looks("cluster", MANAGED_VHOST, "queues.list", "dead-letters.list", "scheduled.list"),
    *looks("shard", MANAGED_VHOST, "queues.look"),
    *changes("catalog", ADMINISTERED, "queues.act"),
    *looks("cluster", ADMINISTERED, "streams.list", "groups.list"),
    *looks("shard", ADMINISTERED, "streams.show", "groups.show", "groups.lag"),
    *changes("catalog", ADMINISTERED, "streams.create"),
    *changes("shard", ADMINISTERED, "streams.delete", "groups.create", "groups.reset", "groups.delete"),
)
ACCESS = (
    *looks("cluster", MANAGED, "vhosts.list"),
    *looks("cluster", ADMINISTERED, "vhosts.look"),
    *changes("catalog", ADMINISTERED, "vhosts.add", "vhosts.delete", "vhosts.limits", "vhosts.trace"),
    *changes("node", ADMINISTERED, "vhosts.start"),
    *looks("catalog", MANAGED, "vhosts.list-limits"),
    *looks("catalog", MONITORED_VHOST, "vhosts.look-at-limits"),
    *looks("catalog", ADMINISTERED, "users.list"),
    *changes("catalog", ADMINISTERED, "users.add", "users.put", "users.delete", "users.password", "users.tags"),
    *looks("catalog", MANAGED, "users.list-limits"),
    *changes("catalog", ADMINISTERED, "users.limits"),
    *looks("catalog", ADMINISTERED, "keys.list", "tokens.list"),
    *changes("catalog", ADMINISTERED, "keys.add", "keys.rotate", "keys.delete"),
    *changes("catalog", ADMINISTERED, "tokens.add", "tokens.revoke", "tokens.rotate"),
    *looks("catalog", ADMINISTERED, "permissions.list", "topic-permissions.list"),
    *changes("catalog", ADMINISTERED, "permissions.set", "permissions.clear"),
    *changes("catalog", ADMINISTERED, "topic-permissions.set", "topic-permissions.clear"),
)
SETTINGS = (
    *looks("catalog", MANAGED_VHOST, "policies.list", "operator-policies.list"),
    *looks("catalog", POLICIES, "policies.look"),
    *changes("catalog", POLICIES, "policies.set", "policies.clear"),
    *looks("catalog", ADMINISTERED, "operator-policies.look"),
    *changes("catalog", ADMINISTERED, "operator-policies.set", "operator-policies.clear"),
    *looks("catalog", POLICIES, "parameters.list", "global-parameters.list"),
    *changes("catalog", POLICIES, "parameters.set", "parameters.clear"),
    *changes("catalog", POLICIES, "global-parameters.set", "global-parameters.clear"),
)
ALERTS = (
    *looks("cluster", MANAGED, "alerts.firing", "alerts.history"),
    *looks("catalog", MANAGED, "alerts.list", "alerts.silences"),
    *changes("catalog", ADMINISTERED, "alerts.set", "alerts.clear"),
    *changes("catalog", POLICIES, "alerts.silence", "alerts.unsilence"),
    *looks("cluster", MONITORED, "alerts.receivers"),
    *looks("catalog", MONITORED, "alerts.look-at-receiver"),
    *changes("catalog", ADMINISTERED, "alerts.receiver", "alerts.forget"),
    *changes("node", ADMINISTERED, "alerts.test"),
)

OPERATIONS: dict[str, Operation] = {
    each.name: each for each in (*CLIENTS, *SURFACES, *SERVER, *CONNECTIONS, *TOPOLOGY, *ACCESS, *SETTINGS, *ALERTS)
}


def rule_of(name: str) -> Rule:
    """What an operation needs; one that is not in the table is refused."""
    operation = OPERATIONS.get(name)
    if operation is None:
        raise AccessRefused(f"no user may call '{name}': it is not in the table of operations")
    return operation.rule
