"""A shard: a whole broker that has some of the queues. It knows of the others only what leads to its own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from leveret.cluster.catalog.changes import DefinitionChange, concerns
from leveret.cluster.catalog.reconciliation import Reconciliation
from leveret.cluster.catalog.replica import Replica
from leveret.cluster.forwarding.handler import Apis, NoApis
from leveret.cluster.proxy.orphaned_deliveries import ExclusiveConsumers, OrphanedDeliveries
from leveret.cluster.proxy.proxied import ProxiedClient, ProxiedConnection
from leveret.cluster.transfer.message import OutboxBatch, take
from leveret.core.errors import BrokerClosed, JournalFailed, TooMany
from leveret.observability.logs import Log
from leveret.protocols.amqp.hub import Hub

if TYPE_CHECKING:
    from leveret.cluster.proxy.sessions import RemoteListener

LOG = Log("node")


class Shard:
    """One shard that this node owns."""

    def __init__(self, shard_id: str, hub: Hub, edges: Apis | None = None) -> None:
        """Serve the broker of a hub; `edges` answer requests about it."""
        self.shard_id = shard_id
        self.hub = hub
        self.edges = edges or NoApis()
        self.orphaned = OrphanedDeliveries(hub.core)
        self.exclusive_consumers = ExclusiveConsumers(hub.core, self.orphaned)
        self.reconciliation = Reconciliation(shard_id, hub.core)
        self.proxied_clients: set[RemoteListener] = set()
        """The clients of other nodes."""
        self.is_proven: Callable[[], bool] = lambda: True
        """Whether no other node can own the shard now."""
        self._unproven: dict[ProxiedClient, None] = {}
        self.knows: Callable[[int, Callable[[bool], None]], bool] = lambda version, then: True
        """Whether this node has a version of the catalog; if not it calls, not under a lock, when it has looked."""

    def has_queue(self, vhost: str, name: str) -> bool:
        with self.hub.locked() as core:
            found = core.topology.vhosts.get(vhost)
            return found is not None and name in found.queues

    def bring(self, batch: OutboxBatch, done: Callable[[int], None]) -> None:
        """Have outbox messages of another shard; `done`, under the lock, with how many of them, when they are
        durable here.
        """
        with self.hub.locked() as core:
            if self.hub.is_behind:
                raise TooMany(f"much waits for the disks of shard {self.shard_id}: bring them again later")
            self.hub.when_durable(partial(done, take(core, batch)))

    def begin(self) -> None:
        """This node is the new owner: clients that hold messages of the one before it are waited for."""
        with self.hub.locked():
            self.orphaned.hold_back()
            self.exclusive_consumers.hold_back()

    def may_tell(self, proxied: ProxiedClient) -> bool:
        """Whether clients may be told anything; if not, a proxied client is asked again as soon as they may.

        A node that stood still may have lost the shard without knowing it. What it says then is not confirmed by any
        append: it would be delivered by the next owner as well.
        """
        if self.is_proven():
            return True
        self._unproven[proxied] = None
        return False

    def look(self) -> None:
        """Tell clients what had to wait; not under a lock."""
        if self._unproven and self.is_proven():
            unproven, self._unproven = self._unproven, {}
            for proxied in unproven:
                proxied.flush()

    def leave(self) -> None:
        """This node is no more the owner: nothing is handed out any more, and what clients hold they keep."""
        with suppress(JournalFailed, BrokerClosed), self.hub.locked():
            for connection in self.hub.connections:
                if isinstance(connection, ProxiedConnection):
                    self.orphaned.keep(connection.take_leases())
                    connection.leave()
            self.orphaned.stop()

    def follow(self, changes: list[DefinitionChange], replica: Replica) -> None:
        """Have what was decided for the whole cluster, as far as it concerns this shard."""
        wanted = [change for change in changes if concerns(change, self.shard_id, replica.shard_ids)]
        if wanted:
            self._try(lambda: self.reconciliation.follow(wanted, replica.history))

    def resync(self, changes: list[DefinitionChange], replica: Replica) -> None:
        """Have what the whole cluster has after its definitions went to another place of their log."""
        if self.reconciliation.is_in(replica.history):
            self.follow(changes, replica)
        else:
            self._try(lambda: self.reconciliation.reconcile(replica))

    def _try(self, work: Callable[[], None]) -> None:
        """Follow definitions; if that fails the next owner will know: it makes what is not in the journal."""
        try:
            with self.hub.locked(), self.orphaned.stepping_aside():
                work()
        except (JournalFailed, BrokerClosed) as error:
            LOG.warning("shard does not follow", shard=self.shard_id, reason=error)

    def reconcile(self, replica: Replica, discard: bool = False) -> None:
        """Have what the whole cluster has: see leveret.cluster.catalog.reconciliation."""
        with self.hub.locked(), self.orphaned.stepping_aside():
            self.reconciliation.reconcile(replica, discard)
