"""A client of a front in a shard: a connection without a socket, let in by the node that the client came to."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from leveret.amqp.connection import Connection
from leveret.core.errors import BrokerClosed, JournalFailed

if TYPE_CHECKING:
    from leveret.amqp.hub import Hub
    from leveret.node.front.connection import Caller


class Listener(Protocol):
    """Who hears what a shard says to a client."""

    def received(self, data: bytes) -> None:
        """Frames for the client."""

    def held(self, held: bool) -> None:
        """The shard hears nothing more for a while, or again."""

    def lost(self, reason: str) -> None:
        """The shard has closed the connection."""


class Guest:
    """One client in one shard; the hub of the shard takes it for a socket."""

    def __init__(self, hub: Hub, caller: Caller, listener: Listener) -> None:
        """Open a connection."""
        self._hub = hub
        self._listener = listener
        self._held = False
        self._gone = False
        self._connection = Connection(hub, caller.peer)
        self._connection.socket = self
        self._connection.local, self._connection.entrance = caller.local, caller.node
        with hub.locked():
            self._connection.admit(caller.user, caller.vhost, caller.client_properties)

    # For the client

    def send(self, data: bytes) -> None:
        """Frames of the client; a shard that cannot write any more takes none."""
        try:
            self._hub.receive(self._connection, data)
        except (JournalFailed, BrokerClosed) as error:
            self._fail(error)

    def pause(self, paused: bool) -> None:
        """Whether the client takes no more for now."""
        self._connection.writable(not paused)

    def close(self) -> None:
        """The client has gone."""
        self._gone = True
        with suppress(JournalFailed, BrokerClosed):  # it has nothing to give back then
            self._hub.lost(self._connection)

    def _fail(self, error: Exception) -> None:
        if not self._gone:
            self._gone = True
            self._listener.lost(str(error))

    # For the shard

    def flush(self) -> None:
        """Hand over what the shard says."""
        data = self._connection.take_output()
        if data:
            self._listener.received(data)
        if self._connection.finished:
            self.abort()
        elif self._held is self._connection.wants_input:
            self._held = not self._held
            self._listener.held(self._held)

    def abort(self) -> None:
        """The shard wants to hear no more."""
        if not self._gone:
            self.close()
            self._listener.lost("the shard has closed the connection")
