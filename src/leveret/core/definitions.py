"""Stored definitions back into the topology: the reverse of each to_dict, exchanges and queues before bindings."""

from collections.abc import Mapping
from typing import Any

from leveret.core.exchanges import Binding, Exchange
from leveret.core.jsonable import restored
from leveret.core.policy import Policy
from leveret.core.topology import Removed, Vhost

Stored = Mapping[str, Any]


def restore_exchange(vhost: Vhost, stored: Stored) -> Exchange:
    """Declare again what Exchange.to_dict gave; one that exists already is left as it is."""
    existing = vhost.exchanges.get(stored["name"])
    if existing is not None:
        return existing
    return vhost.restore_exchange(
        stored["name"],
        stored["type"],
        stored["durable"],
        stored["auto_delete"],
        stored["internal"],
        restored(stored["arguments"]),
    )


def restore_binding(vhost: Vhost, stored: Stored) -> Binding | None:
    """Bind again what Binding.to_dict gave."""
    return vhost.bind(*_ends(stored))


def forget_binding(vhost: Vhost, stored: Stored) -> Removed:
    """Unbind what Binding.to_dict gave."""
    return vhost.unbind(*_ends(stored))


def restore_policy(vhost: Vhost, stored: Stored) -> Policy:
    """Set again what Policy.to_dict gave."""
    policy = Policy.from_dict(stored)
    vhost.set_policy(policy)
    return policy


def _ends(stored: Stored) -> tuple[str, str, str, dict[str, Any], str]:
    """A binding as bind and unbind take it."""
    arguments = restored(stored["arguments"])
    return stored["source"], stored["destination"], stored["routing_key"], arguments, stored["destination_type"]
