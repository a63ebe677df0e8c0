"""A shard: a whole broker that has some of the queues. It knows of the others only what leads to its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from leveret.amqp.hub import Hub
from leveret.cluster.changes import Change, apply, change_of, concerns
from leveret.cluster.replica import Replica, in_order
from leveret.core.broker import Broker
from leveret.core.catalog import REMOVED, Kind
from leveret.core.errors import BrokerClosed, JournalFailed, LeveretError, PreconditionFailed, TooMany
from leveret.core.names import INTERNAL_VHOST
from leveret.core.topology import Vhost
from leveret.node.guest import Guest, GuestConnection
from leveret.node.inbox import Inbox
from leveret.node.incumbents import Incumbents
from leveret.node.letter import Letter
from leveret.node.unclaimed import Unclaimed
from leveret.node.web.edges import Edges, NoEdges
from leveret.telemetry.logs import Log

if TYPE_CHECKING:
    from leveret.node.sessions import RemoteListener

LOG = Log("node")


class Shard:
    """One shard that this node owns."""

    def __init__(self, home: str, hub: Hub, edges: Edges | None = None) -> None:
        """Serve the broker of a hub; `edges` answer requests about it."""
        self.home = home
        self.hub = hub
        self.edges = edges or NoEdges()
        self.unclaimed = Unclaimed(hub.core)
        self.incumbents = Incumbents(hub, self.unclaimed)
        self._inbox = Inbox()
        self.guests: set[RemoteListener] = set()
        """The clients of other nodes."""
        self.is_proven: Callable[[], bool] = lambda: True
        """Whether nobody else can have the shard now."""
        self._doubtful: dict[Guest, None] = {}
        self.knows: Callable[[int, Callable[[bool], None]], bool] = lambda version, then: True
        """Whether this node has a version of the catalog; if not it calls, not under a lock, when it has looked."""

    def has_queue(self, vhost: str, name: str) -> bool:
        """Whether a queue is here."""
        with self.hub.locked() as core:
            found = core.topology.vhosts.get(vhost)
            return found is not None and name in found.queues

    def bring(self, letter: Letter, done: Callable[[], None]) -> None:
        """Have a dead letter of another shard; `done`, under the lock, when it is durable here."""
        with self.hub.locked() as core:
            if self.hub.is_behind:
                raise TooMany(f"much waits for the disks of shard {self.home}: bring it again later")
            self._inbox.take(core, letter)
            self.hub.when_durable(done)

    def begin(self) -> None:
        """This node is the new owner: whoever holds messages of the one before it is waited for."""
        with self.hub.locked():
            self.unclaimed.hold_back()
            self.incumbents.hold_back()

    def may_tell(self, guest: Guest) -> bool:
        """Whether clients may be told anything; if not, a guest is asked again as soon as they may.

        A node that stood still may have lost the shard without knowing it. What it says then is not confirmed by any
        append: it would be delivered by the next owner as well.
        """
        if self.is_proven():
            return True
        self._doubtful[guest] = None
        return False

    def look(self) -> None:
        """Tell clients what had to wait; not under a lock."""
        if self._doubtful and self.is_proven():
            doubtful, self._doubtful = self._doubtful, {}
            for guest in doubtful:
                guest.flush()

    def leave(self) -> None:
        """This node is no more the owner: nothing is handed out any more, and what clients hold they keep."""
        with suppress(JournalFailed, BrokerClosed), self.hub.locked():
            for connection in self.hub.connections:
                if isinstance(connection, GuestConnection):
                    self.unclaimed.keep(connection.take_leases())
                    connection.leave()
            self.unclaimed.stop()

    def follow(self, changes: list[Change], homes: Mapping[tuple[str, str], str]) -> None:
        """Have what was decided for the whole cluster, as far as it concerns this shard."""
        wanted = [change for change in changes if concerns(change, self.home, homes)]
        if not wanted:
            return
        try:
            with self.hub.locked() as core:
                _make_all(core, wanted)
        except (JournalFailed, BrokerClosed) as error:
            # Its next owner will know: what is not in its journal is made when it is opened.
            LOG.warning("shard does not follow", shard=self.home, reason=error)

    def reconcile(self, replica: Replica) -> None:
        """Have what the whole cluster has, as far as it concerns this shard, and nothing else."""
        changes = [_inside(each) for each in replica.changes() if concerns(each, self.home, replica.homes)]
        wanted = {change.key for change in changes}
        with self.hub.locked() as core:
            _make_all(core, [each for each in _surplus(core) if each.key not in wanted])
            _make_all(core, in_order(changes))


def _make_all(core: Broker, changes: Iterable[Change]) -> None:
    """Make changes; one that cannot be made does not keep the others from it."""
    for change in map(_inside, changes):
        try:
            _make(core, change)
        except JournalFailed:
            raise
        except LeveretError as error:
            LOG.error("definition not made", error, kind=change.kind.name)


def _make(core: Broker, change: Change) -> None:
    """Make a change; what is there in its place and is something else goes first."""
    try:
        apply(core, change)
    except PreconditionFailed:
        apply(core, Change(change.what | REMOVED, change.payload))
        apply(core, change)


def _inside(change: Change) -> Change:
    """A change as a shard makes it.

    Whose a queue is is known by the fronts: here everybody is somebody else. An exchange that goes with its last
    binding would go too early: here are only some of them.
    """
    if change.removed or change.kind not in (Kind.QUEUE, Kind.EXCHANGE):
        return change
    definition = change.definition
    if change.kind == Kind.EXCHANGE:
        return change_of(Kind.EXCHANGE, {**definition, "auto_delete": False})
    return change_of(Kind.QUEUE, {name: value for name, value in definition.items() if name != "owner"})


def _surplus(core: Broker) -> list[Change]:
    """What removes everything that a broker has; the bindings first, the virtual hosts last."""
    vhosts = [vhost for vhost in core.topology.vhosts.values() if vhost.name != INTERNAL_VHOST]
    found = [each for vhost in vhosts for each in _of_vhost(core, vhost)]
    return sorted(found, key=lambda change: -change.kind)


def _of_vhost(core: Broker, vhost: Vhost) -> list[Change]:
    here = {"vhost": vhost.name}
    policies = [*vhost.policies.values(), *vhost.operator_policies.values()]
    rows = [
        *((Kind.VHOST, vhost.to_dict()) for _ in [vhost] if vhost.name != "/"),
        *((Kind.EXCHANGE, {**here, **each.to_dict()}) for each in vhost.exchanges.values() if not _is_given(each.name)),
        *((Kind.QUEUE, {**here, "name": name}) for name in vhost.queues),
        *((Kind.BINDING, {**here, **each.to_dict()}) for each in vhost.bindings()),
        *((Kind.POLICY, {**here, **each.to_dict()}) for each in policies),
    ]
    return [change_of(kind, definition, removed=True) for kind, definition in rows]


def _is_given(exchange: str) -> bool:
    """Whether an exchange is always there."""
    return not exchange or exchange.startswith("amq.")
