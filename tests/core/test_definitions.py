"""A virtual host written as JSON and read back is the same."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from leveret.core import definition_log, jsonable
from leveret.core.policy import Policy
from leveret.core.topology import Topology, Vhost


@dataclass(frozen=True)
class Queue:
    name: str


def stored(vhost: Vhost) -> str:
    return json.dumps(
        {
            "vhost": vhost.to_dict(),
            "exchanges": [exchange.to_dict() for exchange in vhost.exchanges.values() if exchange.name],
            "bindings": [binding.to_dict() for binding in vhost.bindings()],
            "policies": [each.to_dict() for each in (*vhost.policies.values(), *vhost.operator_policies.values())],
        }
    )


def restored(text: str) -> Vhost:
    document = json.loads(text)
    vhost = Topology().add_vhost(document["vhost"]["name"])
    vhost.add_queue(Queue("q"))
    for exchange in document["exchanges"]:
        definition_log.restore_exchange(vhost, exchange)
    for binding in document["bindings"]:
        definition_log.restore_binding(vhost, binding)
    for policy in document["policies"]:
        definition_log.restore_policy(vhost, policy)
    return vhost


def full_vhost() -> Vhost:
    arguments = {
        "b": b"\x00\xff",
        "t": datetime(2026, 1, 2, tzinfo=UTC),
        "d": Decimal("1.50"),
        "n": {"$x": [None, 1.5]},
    }
    vhost = Vhost("team")
    vhost.add_queue(Queue("q"))
    vhost.declare_exchange("h", "headers", durable=False, auto_delete=True, internal=True, arguments=arguments)
    vhost.declare_exchange("d", "x-delayed-message", arguments={"x-delayed-type": "topic"})
    vhost.bind("h", "q", "key", arguments)
    vhost.bind("d", "h", "a.#", destination_type="exchange")
    vhost.set_policy(Policy("p", "^q", 3, "queues", {"retry-backoff": [1, 2], "message-ttl": 5}))
    vhost.set_policy(Policy("o", ".*", definition={"max-length": 9}, operator=True))
    return vhost


def test_everything_comes_back() -> None:
    text = stored(full_vhost())
    again = restored(text)
    assert stored(again) == text
    assert again.exchanges["d"].delays
    assert [queue.name for queue in again.route("d", ["a.b"], dict(full_vhost().exchanges["h"].arguments))] == ["q"]
    assert again.policies == full_vhost().policies
    assert again.operator_policies == full_vhost().operator_policies


def test_a_stored_binding_can_be_undone() -> None:
    vhost = full_vhost()
    for stored_binding in [json.loads(json.dumps(binding.to_dict())) for binding in vhost.bindings()]:
        source, destination, key = (stored_binding[name] for name in ("source", "destination", "routing_key"))
        arguments = jsonable.restored(stored_binding["arguments"])
        vhost.unbind(source, destination, key, arguments, stored_binding["destination_type"])
    assert list(vhost.bindings()) == []
    assert "h" not in vhost.exchanges, "the auto-delete exchange went with its last binding"
