"""Changes of definitions: what one node's core journaled, carried out on another's by the verbs of the core.

A change is what the journal gets of a definition (see leveret.core.definition_log): its kind, removed or not, and JSON.
That of a queue names its shard (a number, or a node) in place of the number that it has in one broker. A change can be
made twice without harm.
"""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from leveret.core.broker import Broker
from leveret.core.changes import DeleteQueue
from leveret.core.definition_log import REMOVED, Kind, dumps, key_of
from leveret.core.jsonable import canonical, restored
from leveret.core.names import RESERVED_PREFIX
from leveret.core.policy import Policy
from leveret.core.queue import Queue
from leveret.core.topology import Vhost, VhostDetails

Definition = dict[str, Any]
Key = tuple[int, bytes]

SHARED = frozenset({
    Kind.VHOST, Kind.EXCHANGE, Kind.QUEUE, Kind.BINDING, Kind.POLICY, Kind.USER, Kind.PERMISSION,
    Kind.TOPIC_PERMISSION, Kind.VHOST_LIMITS, Kind.API_KEY, Kind.GLOBAL_PARAMETER, Kind.ACCESS_KEY, Kind.QUEUE_DETAILS,
    Kind.ALERT_RULE, Kind.ALERT_RECEIVER, Kind.ALERT_SILENCE, Kind.DELETED_QUEUE, Kind.LOGOUT,
})  # fmt: skip
"""What all nodes agree on. Everything else (numbers, consumers, offsets of groups) is a matter of one shard."""
IN_SHARDS = frozenset({
    Kind.VHOST, Kind.EXCHANGE, Kind.QUEUE, Kind.BINDING, Kind.POLICY, Kind.QUEUE_DETAILS,
})  # fmt: skip
"""What shards have to know; the rest is for those who let clients in."""


class DefinitionChange(NamedTuple):
    """One definition that is made, replaced or removed."""

    what: int
    payload: bytes

    @property
    def kind(self) -> Kind:
        return Kind(self.what & ~REMOVED)

    @property
    def removed(self) -> bool:
        return bool(self.what & REMOVED)

    @property
    def definition(self) -> Definition:
        """What it says; of something removed at least the key."""
        found: Definition = json.loads(self.payload)
        return found

    @property
    def key(self) -> Key:
        return self.kind, key_of(self.kind, self.definition)


def change_of(kind: int, definition: Definition, removed: bool = False) -> DefinitionChange:
    """The change that makes a definition, or removes it."""
    return DefinitionChange(kind | (REMOVED if removed else 0), dumps(definition))


def inverse(change: DefinitionChange, before: bytes | None) -> DefinitionChange:
    """What undoes a change, if this was the definition before it."""
    return (
        DefinitionChange(change.kind | REMOVED, change.payload)
        if before is None
        else DefinitionChange(change.kind, before)
    )


def apply(broker: Broker, change: DefinitionChange) -> None:
    """Let a broker have a change that was made elsewhere; it journals it as if it were its own."""
    definition = change.definition
    virtual_host = broker.topology.vhosts.get(definition.get("vhost", "/"))
    if virtual_host is None:
        return  # it went with its virtual host
    if change.kind in _VERBS:
        made, removed = _VERBS[change.kind]
        (removed if change.removed else made)(broker, virtual_host, definition)
    else:
        (broker.undefine if change.removed else broker.define)(change.kind, definition)


def concerns(change: DefinitionChange, shard_id: str, shard_ids: Mapping[tuple[str, str], str]) -> bool:
    """Whether a shard has to know: queues and the bindings to them are only in their own, everything else is in all."""
    if change.kind not in IN_SHARDS:
        return False
    definition = change.definition
    if change.kind == Kind.QUEUE:
        return bool(definition["home"] == shard_id)
    if change.kind == Kind.QUEUE_DETAILS:
        return shard_ids.get((definition["vhost"], definition["name"])) == shard_id
    if change.kind == Kind.BINDING and definition["destination_type"] == "queue":
        return shard_ids.get((definition["vhost"], definition["destination"])) == shard_id
    return True


def _make_exchange(broker: Broker, virtual_host: Vhost, definition: Definition) -> None:
    told = {name: definition[name] for name in ("durable", "auto_delete", "internal")}
    arguments = restored(definition["arguments"])
    broker.declare_exchange(virtual_host.name, definition["name"], definition["type"], arguments=arguments, **told)


def _make_queue(broker: Broker, virtual_host: Vhost, definition: Definition) -> None:
    name, stored = definition["name"], definition.get("arguments")
    arguments = restored(stored) if stored else {}
    if name not in virtual_host.queues or _lifetime(virtual_host.queues[name]) != _lifetime_of(definition):
        durable, auto_delete, owner = _lifetime_of(definition)
        reserved = name.startswith(RESERVED_PREFIX)
        lifetime: dict[str, Any] = {"durable": durable, "auto_delete": auto_delete, "server_named": reserved}
        lifetime["created_ms"] = definition.get("created_ms", 0)
        broker.declare_queue(virtual_host.name, name, arguments, owner=owner, **lifetime)
    elif canonical(arguments) != canonical(virtual_host.queues[name].arguments or {}):
        broker.change_queue(virtual_host.queues[name], arguments)
    broker.pause_queue(virtual_host.queues[name], definition.get("paused", False))


def agrees(queue: Queue, definition: Definition) -> bool:
    """Whether a queue is what a definition says, paused or not."""
    stored = definition.get("arguments")
    # As text: a NaN among the values is not equal to itself.
    same = canonical(restored(stored) if stored else {}) == canonical(queue.arguments or {})
    return same and _lifetime(queue) == _lifetime_of(definition)


def _lifetime(queue: Queue) -> tuple[bool, bool, object]:
    return queue.durable, queue.auto_delete, queue.owner


def _lifetime_of(definition: Definition) -> tuple[bool, bool, str | None]:
    """Until when a queue is there; its owner is the object that stands for it on this node."""
    owner = definition.get("owner")
    lasting = definition.get("durable", True), definition.get("auto_delete", False)
    return *lasting, None if owner is None else sys.intern(owner)


def _ends(definition: Definition) -> tuple[str, str, str, Mapping[str, Any], str]:
    arguments = restored(definition["arguments"])
    kind, key = definition["destination_type"], definition["routing_key"]
    return definition["source"], definition["destination"], key, arguments, kind


Verb = Callable[[Broker, Vhost, Definition], object]


_VERBS: dict[Kind, tuple[Verb, Verb]] = {
    Kind.VHOST: (
        lambda broker, vhost, told: broker.declare_vhost(told["name"], VhostDetails.from_dict(told)),
        lambda broker, vhost, told: (
            broker.delete_vhost(told["name"]) if told["name"] in broker.topology.vhosts else None
        ),
    ),
    Kind.EXCHANGE: (_make_exchange, lambda broker, vhost, told: broker.delete_exchange(vhost.name, told["name"])),
    Kind.QUEUE: (
        _make_queue,
        lambda broker, vhost, told: DeleteQueue(vhost.name, told["name"]).apply(broker),
    ),
    Kind.BINDING: (
        lambda broker, vhost, told: broker.bind(vhost.name, *_ends(told)),
        lambda broker, vhost, told: broker.unbind(vhost.name, *_ends(told)),
    ),
    Kind.POLICY: (
        lambda broker, vhost, told: broker.set_policy(vhost.name, Policy.from_dict(told)),
        lambda broker, vhost, told: broker.delete_policy(vhost.name, told["name"], told["operator"]),
    ),
}
"""How a definition is made and removed that is more than a row of the core's catalog."""
