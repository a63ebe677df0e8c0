"""One column of the registry says where an operation runs: no protocol contradicts it."""

from leveret.cluster.forwarding.remote_operations import IN_CLUSTER
from leveret.cluster.forwarding.sqs import IN_CLUSTER as OF_SQS
from leveret.cluster.forwarding.sqs import ROWS
from leveret.cluster.proxy.handlers import HANDLERS
from leveret.operations.registry import OPERATIONS
from leveret.protocols.amqp.channel import HANDLERS as SINGLE
from leveret.protocols.management.routes import ROUTES
from leveret.protocols.rest.api import OPERATIONS as REST
from tests.security.rights import METHODS

ADDED = {
    "shard": {"after", "finish"},
    "catalog": {"finish"},
    "shards": {"scatter", "merge"},
    "nodes": {"merge", "raw"},
    "node": {"merge"},
}
RELAYED = {"basic.publish", "basic.ack", "basic.nack", "basic.reject"}
"""Methods that the proxy relays to a shard without a handler of its own."""


def test_what_an_endpoint_adds_in_a_cluster_fits_the_scope_of_its_operation() -> None:
    endpoints = [(each.operation, each.cluster) for each in ROUTES.values()]
    endpoints += [(each.name, each.cluster) for each in REST]
    endpoints += [(ROWS[action].name, added) for action, added in OF_SQS.items()]
    for name, added in [*endpoints, *IN_CLUSTER.items()]:
        assert {field for field, value in added._asdict().items() if value} <= ADDED[OPERATIONS[name].scope], name


def test_the_proxy_asks_shards_for_the_methods_whose_scope_is_a_shard() -> None:
    proxied = {method.spec.name for method in HANDLERS if HANDLERS[method] is not SINGLE.get(method)}
    in_shards = {name for name in METHODS & OPERATIONS.keys() if OPERATIONS[name].scope in ("shard", "shards")}
    assert (proxied & OPERATIONS.keys()) | RELAYED == in_shards
