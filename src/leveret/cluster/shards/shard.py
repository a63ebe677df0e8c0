"""A shard: a whole broker that has some of the queues. It knows of the others only what leads to its own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from leveret.cluster.catalog.changes import Change, concerns
from leveret.cluster.catalog.reconciliation import Followed
from leveret.cluster.catalog.replica import Replica
from leveret.cluster.forwarding.edges import Edges, NoEdges
from leveret.cluster.proxy.exclusive_consumers import Incumbents
from leveret.cluster.proxy.orphaned_deliveries import Unclaimed
from leveret.cluster.proxy.proxied import Guest, GuestConnection
from leveret.cluster.transfer.batch import Bundle, take
from leveret.core.errors import BrokerClosed, JournalFailed, TooMany
from leveret.observability.logs import Log
from leveret.protocols.amqp.hub import Hub

if TYPE_CHECKING:
    from leveret.cluster.proxy.sessions import RemoteListener

LOG = Log("node")


class Shard:
    """One shard that this node owns."""

    def __init__(self, home: str, hub: Hub, edges: Edges | None = None) -> None:
        """Serve the broker of a hub; `edges` answer requests about it."""
        self.home = home
        self.hub = hub
        self.edges = edges or NoEdges()
        self.unclaimed = Unclaimed(hub.core)
        self.incumbents = Incumbents(hub.core, self.unclaimed)
        self.followed = Followed(home, hub.core)
        self.guests: set[RemoteListener] = set()
        """The clients of other nodes."""
        self.is_proven: Callable[[], bool] = lambda: True
        """Whether no other node can own the shard now."""
        self._doubtful: dict[Guest, None] = {}
        self.knows: Callable[[int, Callable[[bool], None]], bool] = lambda version, then: True
        """Whether this node has a version of the catalog; if not it calls, not under a lock, when it has looked."""

    def has_queue(self, vhost: str, name: str) -> bool:
        """Whether a queue is here."""
        with self.hub.locked() as core:
            found = core.topology.vhosts.get(vhost)
            return found is not None and name in found.queues

    def bring(self, bundle: Bundle, done: Callable[[int], None]) -> None:
        """Have letters of another shard; `done`, under the lock, with how many of them, when they are durable here."""
        with self.hub.locked() as core:
            if self.hub.is_behind:
                raise TooMany(f"much waits for the disks of shard {self.home}: bring them again later")
            self.hub.when_durable(partial(done, take(core, bundle)))

    def begin(self) -> None:
        """This node is the new owner: clients that hold messages of the one before it are waited for."""
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

    def follow(self, changes: list[Change], replica: Replica) -> None:
        """Have what was decided for the whole cluster, as far as it concerns this shard."""
        wanted = [change for change in changes if concerns(change, self.home, replica.homes)]
        if wanted:
            self._try(lambda: self.followed.follow(wanted, replica.history))

    def leap(self, changes: list[Change], replica: Replica) -> None:
        """Have what the whole cluster has after its definitions went to another place of their log."""
        if self.followed.is_in(replica.history):
            self.follow(changes, replica)
        else:
            self._try(lambda: self.followed.reconcile(replica))

    def _try(self, work: Callable[[], None]) -> None:
        """Follow definitions; if that fails the next owner will know: it makes what is not in the journal."""
        try:
            with self.hub.locked(), self.unclaimed.stepping_aside():
                work()
        except (JournalFailed, BrokerClosed) as error:
            LOG.warning("shard does not follow", shard=self.home, reason=error)

    def reconcile(self, replica: Replica, discard: bool = False) -> None:
        """Have what the whole cluster has: see leveret.cluster.catalog.reconciliation."""
        with self.hub.locked(), self.unclaimed.stepping_aside():
            self.followed.reconcile(replica, discard)
