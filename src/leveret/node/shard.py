"""A shard: a whole broker that has some of the queues, and the sessions of the fronts that use them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from leveret.amqp.connection import Connection
from leveret.amqp.hub import Hub
from leveret.core.changes import Bind, Change, DeclareQueue, DeleteQueue, Unbind

if TYPE_CHECKING:
    from leveret.node.front.connection import Caller


class Shard:
    """One shard that this node owns."""

    def __init__(self, home: str, hub: Hub) -> None:
        """Serve the broker of a hub."""
        self.home = home
        self.hub = hub

    def apply(self, change: Change[Any], home_of: Callable[[str, str], str]) -> None:
        """Do what was decided for the whole cluster, as far as it concerns this shard."""
        queue = queue_of(change)
        if queue is not None and home_of(change.vhost, queue) != self.home:
            return
        if isinstance(change, DeclareQueue) and change.owner is not None:
            # Whose it is is known by the fronts: here everybody is somebody else.
            change = replace(change, owner=None, durable=False)
        with self.hub.locked() as core:
            change.apply(core)


def queue_of(change: Change[Any]) -> str | None:
    """The queue that a change is about; None: it concerns every shard."""
    if isinstance(change, DeclareQueue | DeleteQueue):
        return change.name
    if isinstance(change, Bind | Unbind) and change.destination_type == "queue":
        return change.destination
    return None


class LocalSession:
    """A way from a front to a shard of the same process; the shard takes it for a socket."""

    def __init__(
        self, shard: Shard, caller: Caller, received: Callable[[bytes], None], lost: Callable[[], None]
    ) -> None:
        """Open a connection in the shard; `received` gets what it says."""
        self._hub = shard.hub
        self._received = received
        self._lost = lost
        self._connection = Connection(shard.hub, caller.peer)
        self._connection.socket = self
        with shard.hub.locked():
            self._connection.admit(caller.user, caller.vhost, caller.client_properties)

    # For the front

    def send(self, data: bytes) -> None:
        """Give the shard frames."""
        self._hub.receive(self._connection, data)

    def pause(self, paused: bool) -> None:
        """Whether the client takes no more for now."""
        self._connection.writable(not paused)

    def close(self) -> None:
        """The client has gone."""
        self._hub.lost(self._connection)

    # For the shard

    def flush(self) -> None:
        """Hand over what the shard says."""
        data = self._connection.take_output()
        if data:
            self._received(data)
        if self._connection.finished:
            self.abort()

    def abort(self) -> None:
        """The shard wants to hear no more."""
        self._hub.lost(self._connection)
        self._lost()
