"""A shard: a whole broker that has some of the queues. It knows of the others only what leads to its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from leveret.amqp.hub import Hub
from leveret.core.broker import Broker
from leveret.core.catalog import dumps
from leveret.core.changes import Bind, Change, DeclareExchange, DeclareQueue, DeleteExchange, Unbind
from leveret.core.exchanges import Binding
from leveret.core.jsonable import decode
from leveret.core.queue import Queue
from leveret.core.topology import Vhost
from leveret.node.replica import Replica

if TYPE_CHECKING:
    from leveret.node.sessions import RemoteListener


class Shard:
    """One shard that this node owns."""

    def __init__(self, home: str, hub: Hub) -> None:
        """Serve the broker of a hub."""
        self.home = home
        self.hub = hub
        self.guests: set[RemoteListener] = set()
        """The clients of other nodes."""

    def apply(self, change: Change[Any], home: str | None) -> None:
        """Do what was decided for the whole cluster; `home` is the shard that it concerns, None: every one."""
        if home not in (None, self.home):
            return
        if isinstance(change, DeclareQueue) and change.owner is not None:
            # Whose it is is known by the fronts: here everybody is somebody else.
            change = replace(change, owner=None, durable=False)
        with self.hub.locked() as core:
            change.apply(core)

    def reconcile(self, replica: Replica) -> None:
        """Have what the whole cluster has, as far as it concerns this shard, and nothing else."""
        with self.hub.locked() as core:
            for name in [each for each in core.topology.vhosts if each not in replica.core.topology.vhosts]:
                core.delete_vhost(name)
            for vhost in replica.core.topology.vhosts.values():
                core.declare_vhost(vhost.name, vhost.details)
                wanted = {queue.name: queue for queue in replica.queues_in(vhost, self.home)}
                _drop_queues(core, vhost, wanted)
                _match_exchanges(core, vhost)
                for policy in [*vhost.policies.values(), *vhost.operator_policies.values()]:
                    core.set_policy(vhost.name, policy)
                for queue in wanted.values():
                    _declared(queue).apply(core)
                _match_bindings(core, vhost, wanted)


def _declared(queue: Queue) -> DeclareQueue:
    """The declaration of a queue as its shard knows it: whose it is, if anybody's, is known by the fronts."""
    durable = queue.durable and queue.owner is None
    return DeclareQueue(queue.vhost, queue.name, queue.arguments or {}, durable, queue.auto_delete, server_named=True)


def _drop_queues(core: Broker, vhost: Vhost, wanted: dict[str, Queue]) -> None:
    for queue in [each for each in core.topology.vhost(vhost.name).queues.values() if each.name not in wanted]:
        core.delete_queue(queue)


def _match_exchanges(core: Broker, vhost: Vhost) -> None:
    """The same exchanges; one that is another than it was is made anew."""
    here = core.topology.vhost(vhost.name).exchanges
    theirs = {name: each.to_dict() for name, each in vhost.exchanges.items()}
    for name in [name for name, each in here.items() if theirs.get(name) != each.to_dict()]:
        DeleteExchange(vhost.name, name).apply(core)
    for each in vhost.exchanges.values():
        if each.name not in here:
            DeclareExchange(
                vhost.name, each.name, each.type, each.durable, each.auto_delete, each.internal, each.arguments
            ).apply(core)


def _match_bindings(core: Broker, vhost: Vhost, wanted: dict[str, Queue]) -> None:
    """The same bindings of exchanges, and those that lead to queues of this shard."""
    here = {_ends(vhost, each): each for each in core.topology.vhost(vhost.name).bindings()}
    theirs = [each for each in vhost.bindings() if _leads_here(each, wanted)]
    known = {_ends(vhost, each) for each in theirs}
    for ends in here.keys() - known:
        Unbind(*_split(vhost, here[ends])).apply(core)
    for each in theirs:
        Bind(*_split(vhost, each)).apply(core)


def _leads_here(binding: Binding, wanted: dict[str, Queue]) -> bool:
    return binding.to_dict()["destination_type"] == "exchange" or binding.destination.name in wanted


def _ends(vhost: Vhost, binding: Binding) -> bytes:
    return dumps({"vhost": vhost.name, **binding.to_dict()})


def _split(vhost: Vhost, binding: Binding) -> tuple[str, str, str, str, dict[str, Any], str]:
    stored = binding.to_dict()
    return (
        vhost.name,
        stored["source"],
        stored["destination"],
        stored["routing_key"],
        decode(stored["arguments"]),
        stored["destination_type"],
    )
