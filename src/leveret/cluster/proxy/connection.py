"""A client's connection to a node: what it asks for is done by the shards of the queues that it names.

Logging in, permissions and definitions are this node's, from its copy of the catalog; messages go to and come from a
`ShardConnection` for each shard. What a channel says to a shard that cannot be reached waits there; a channel that has
asked for something waits itself, and what comes on it is set aside. Others go on, until too much waits.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from leveret.cluster.proxy.channel import ProxyChannel
from leveret.cluster.proxy.shard_connection import ShardConnection
from leveret.core.changes import Change, DeleteQueue
from leveret.core.queue import Queue
from leveret.protocols.amqp.connection import AmqpConnection, AmqpPeer
from leveret.protocols.amqp.state import HANDSHAKE, ConnectionState, Hold
from leveret.protocols.amqp.traffic import ChannelTraffic
from leveret.security.identity import Identity
from leveret.wire.frames import FrameWriter
from leveret.wire.methods import ConnectionBlocked, ConnectionClose, ConnectionUnblocked
from leveret.wire.replies import Reply

if TYPE_CHECKING:
    from leveret.cluster.proxy.proxied import ProxiedClient
    from leveret.cluster.proxy.sessions import RemoteSession
    from leveret.protocols.amqp.hub import Hub

CLOSE = b"\0\x0a\0\x32"  # connection.close
SETTLING_MS = 5_000  # that a client who leaves waits for the disks of its shards
UNHEARD_BYTES_MAX = 262_144  # of one client that wait for shards: else one without an owner would fill all memory

T = TypeVar("T")


class ProxyCaller(NamedTuple):
    """Who asks a shard for something: a client that this node has let in."""

    peer: AmqpPeer
    identity: Identity
    vhost: str
    client_properties: dict[str, object]
    local: tuple[str, int] = ("", 0)
    """Which address of its node it has come to."""
    node: str | None = None


class ProxyNode(Protocol):
    """What the proxy needs of its node."""

    @property
    def version(self) -> int:
        """The version of the definitions that clients are served by."""

    @property
    def is_current(self) -> bool:
        """Whether clients may be served by them: no other node has changed them without this one's knowing."""

    def hold(self, connection: ProxyConnection) -> None:
        """Read from clients again (`ProxyConnection.trust`) as soon as the read lease allows it."""

    def shard_id_of(self, vhost: str, queue: str) -> str:
        """The shard of a queue."""

    def change(self, change: Change[T], done: Callable[[T | Exception], None]) -> None:
        """Change a definition on every node, then say what came of it; in the thread of the hub, not under a lock."""

    def insist(self, change: Change[Any]) -> None:
        """Change a definition on every node, with as many attempts as it takes; no caller waits for it."""

    def attach(self, shard_connection: ShardConnection, caller: ProxyCaller) -> None:
        """Find a way to the owner of a shard, now and whenever it changes; `ProxyConnection.attached` is told."""

    def renew(self, shard_connection: ShardConnection, caller: ProxyCaller) -> None:
        """Attach it from now on for a client that may do something else."""

    def detach(self, shard_connection: ShardConnection) -> None:
        """That way is not needed any more."""

    def soon(self, job: Callable[[], None]) -> None:
        """Do something in the thread of the hub when no lock is held."""

    def identify(self) -> str:
        """Another name for a connection that may own queues, the only one of its kind in the cluster."""


class ProxyConnection(AmqpConnection):
    """One client of a node."""

    def __init__(self, hub: Hub, peer: AmqpPeer, node: ProxyNode) -> None:
        super().__init__(hub, peer)
        self.node = node
        self._owner = sys.intern(node.identify())
        self.shard_connections: dict[str, ShardConnection] = {}
        self._noted: list[ShardConnection] = []
        self.entered: list[ShardConnection] = []
        """Shards of this node whose locks are held until the end of this turn."""
        self.is_draining = False
        self._questions: Counter[int] = Counter()  # by channel
        self._put_off: list[int] = []
        self._closings: list[tuple[int, Callable[[], None]]] = []
        self._is_leaving = False
        self._leaving_ms = 0
        self._blocking: set[ShardConnection] = set()

    def new_channel(self, number: int) -> ProxyChannel:
        return ProxyChannel(self, number)

    def take_unconfirmed(self) -> list[tuple[ChannelTraffic, int]]:
        """Nothing: shards confirm what they have."""
        super().take_unconfirmed()
        return []

    def receive(self, data: bytes | bytearray | memoryview) -> None:
        """Take what came from the socket; it is looked at when this node knows the newest definitions."""
        if not self.node.is_current:
            self.pause_stale()
        super().receive(data)

    def drain(self) -> None:
        """Deal with all frames that are here whole; what is for shards of this node goes straight to them."""
        self.is_draining = True
        try:
            super().drain()
        finally:
            self.is_draining = False
            self._leave_shards()

    def _leave_shards(self) -> None:
        """Let go of the locks of shards: nothing else is done under one."""
        entered, self.entered = self.entered, []
        for shard_connection in entered:
            shard_connection.leave()

    def free_input(self) -> None:
        """Free the buffers in which nothing waits, those to and from shards as well."""
        super().free_input()
        for shard_connection in self.shard_connections.values():
            shard_connection.reader.release()
            shard_connection.writer.release()

    def pause_stale(self) -> None:
        """The catalog replica may be stale: stop reading from the client, and stop deliveries."""
        if self.state is ConnectionState.RUNNING or self.state in HANDSHAKE:
            self.hold(Hold.DEFINITIONS)
            self._pause_shards()
            self.node.hold(self)

    def resume_fresh(self) -> None:
        """They are not, or this node knows; frames of a client that may no longer be here are ignored."""
        self.check_virtual_host()
        self.let_go(Hold.DEFINITIONS)
        self._pause_shards()

    @property
    def is_stale(self) -> bool:
        """Whether the client waits for that."""
        return Hold.DEFINITIONS in self._holds

    @property
    def _is_quiet(self) -> bool:
        """Whether shards are to push nothing."""
        return self.outlet.paused or self.is_stale

    def _pause_shards(self) -> None:
        for shard_connection in self.shard_connections.values():
            shard_connection.pause(self._is_quiet)

    # To shards

    def shard_connection(self, shard_id: str) -> ShardConnection:
        found = self.shard_connections.get(shard_id)
        if found is None:
            found = self.shard_connections[shard_id] = ShardConnection(self, shard_id)
            self.node.soon(lambda: self.node.attach(found, self._caller))
        return found

    @property
    def _caller(self) -> ProxyCaller:
        """What a shard has to know of the client."""
        assert self.identity is not None, "the client has logged in"
        came = self.local, self.hub.replies.node
        return ProxyCaller(self.peer, self.identity, self.vhost, self._introduction, *came)

    def renew(self, identity: Identity) -> None:
        """Go on with a new token, here and in shards, and wherever those are served next."""
        super().renew(identity)
        for shard_connection in self.shard_connections.values():
            self.node.renew(shard_connection, self._caller)
            shard_connection.renew(identity)

    @property
    def _introduction(self) -> dict[str, object]:
        """What shards need of what the client says about itself; it may say whatever AMQP has a type for."""
        name = self.client_properties.get("connection_name")
        capabilities = {each: True for each, has in self.client_capabilities.items() if has is True}
        return {"connection_name": name if isinstance(name, str) else None, "capabilities": capabilities}

    def note(self, shard_connection: ShardConnection) -> None:
        """A backend has something to send; if it cannot, and much waits already, so does the client."""
        if not self._noted:
            self.node.soon(self._send)
        self._noted.append(shard_connection)
        if not shard_connection.hears and self._is_full:
            self.hold(Hold.SHARD)

    def _send(self) -> None:
        """Send what was said, once to each shard."""
        noted, self._noted = self._noted, []
        for shard_connection in noted:
            shard_connection.flush()

    @property
    def _is_full(self) -> bool:
        """Whether so much waits for shards that the client is not read any more."""
        unsent_bytes = sum(each.unsent_bytes for each in self.shard_connections.values())
        return max(unsent_bytes, self.aside_bytes) > UNHEARD_BYTES_MAX

    # Channels that wait

    def wait(self, number: int) -> None:
        """Hear nothing on a channel until a question is answered."""
        self._questions[number] += 1
        self.stall(number)

    def go_on(self, number: int) -> None:
        """A question of a channel was answered."""
        if number not in self._questions:
            return  # the connection is being closed
        self._questions[number] -= 1
        if not self._questions[number]:
            del self._questions[number]
            if self.unstall(number) and not self.waiting:
                self.hub.resumed(self)
            self._let_go()

    def has_asked(self, number: int) -> bool:
        return number in self._questions

    def set_aside(self, number: int, frame: bytes) -> None:
        """Keep a frame of a channel that waits."""
        super().set_aside(number, frame)
        if self.aside_bytes > UNHEARD_BYTES_MAX:
            self.hold(Hold.SHARD)

    def _let_go(self) -> None:
        """Something waits no more: a client that leaves need not either, if all its frames were processed."""
        if self._is_leaving and len(self._questions) == 1:
            self._is_leaving = False
            self.go_on(0)
        if Hold.SHARD in self._holds and not self._is_full:
            self.let_go(Hold.SHARD)

    def _put_aside(self, number: int, payload: bytes) -> None:
        """Look at a method again later; what comes after it on its channel waits as well."""
        writer = FrameWriter()
        writer.method(number, payload)
        self.wait(number)
        self.set_aside(number, writer.take())

    def look_again(self) -> None:
        """A shard is reached, or will not be: look at the methods that had to wait for that."""
        put_off, self._put_off = self._put_off, []
        for number in put_off:
            self.go_on(number)
        self._let_go()

    def on_method(self, number: int, payload: bytes) -> None:
        """A method came on an open channel; what it has published before is sent before."""
        if self.entered:
            self._leave_shards()
        if self.channels[number].has_unsent:
            self._put_aside(number, payload)
            self._put_off.append(number)
        else:
            super().on_method(number, payload)

    # From shards

    def later(self, action: Callable[[], None]) -> None:
        """Go on because of a shard, unless the client has disconnected; called by sessions, not under a lock."""
        if not self._released:
            self.hub.finish(self, action)

    def attached(self, shard_connection: ShardConnection, session: ProxiedClient | RemoteSession) -> None:
        def attach() -> None:
            shard_connection.attach(session)
            session.pause(self._is_quiet)
            self.look_again()

        self.hub.finish(self, attach)

    def lost_shard(self, shard_connection: ShardConnection) -> None:
        """The way to a shard has ended; what the shard knew of this client has to be told again."""
        shard_connection.learn_names()
        for channel in self.channels.values():
            channel.lost(shard_connection.shard_id)
        shard_connection.detach()
        self.blocked_by(shard_connection, ConnectionUnblocked())
        self.shard_channel_closed()  # no shard that is gone says so any more
        self.look_again()

    def gone_backend(self, shard_connection: ShardConnection) -> None:
        """A shard went with its node and will have no other owner: what the client has there is dropped."""
        self.later(lambda: self._gone(shard_connection))

    def _gone(self, shard_connection: ShardConnection) -> None:
        del self.shard_connections[shard_connection.shard_id]
        shard_connection.durable_mark = shard_connection.last_mark  # there is nothing left that could be
        for channel in list(self.channels.values()):
            channel.gone(shard_connection.shard_id)
        self.shard_channel_closed()
        self.look_again()

    def refused(self, method: ConnectionClose) -> None:
        """A shard has closed the connection: what was wrong with a frame is wrong for the whole of it."""
        if method.reply_code != Reply.CONNECTION_FORCED and self.state is ConnectionState.RUNNING:
            self._close(method)

    def blocked_by(self, shard_connection: ShardConnection, method: ConnectionBlocked | ConnectionUnblocked) -> None:
        """A shard takes no publishes because its node is short of something, or takes them again."""
        before = bool(self._blocking)
        if isinstance(method, ConnectionBlocked):
            self._blocking.add(shard_connection)
        else:
            self._blocking.discard(shard_connection)
        if bool(self._blocking) is not before:
            self.say(method)

    # Ending

    def on_frame(self, kind: int, number: int, payload: bytes) -> None:
        """A frame came on no open channel; a client that leaves is told so when shards have all that it has said."""
        if number or not payload.startswith(CLOSE) or self.state is not ConnectionState.RUNNING or self._may_leave:
            super().on_frame(kind, number, payload)
            return
        if not self._leaving_ms:
            self._leaving_ms = self.hub.core.now_ms + SETTLING_MS
            for shard_connection in self.shard_connections.values():
                shard_connection.hurry()
        self._put_aside(0, payload)
        self._is_leaving = True

    @property
    def _may_leave(self) -> bool:
        """Whether no channel waits, shards have all, and what they were told is durable, or has had time to be.

        A shard may not have processed what it was sent: a client that leaves would take it along.
        """
        if self._questions or any(each.unsent_bytes for each in self.shard_connections.values()):
            return False
        unsure = {each for each in self.shard_connections.values() if each.unsure}
        for channel in self.channels.values():
            unsure |= {each.shard_connection for each in channel.shard_channels.values() if each.sent}
        return not unsure or (all(each.hears for each in unsure) and 0 < self._leaving_ms <= self.hub.core.now_ms)

    def spoken(self) -> None:
        """Shards have said what became of all that a channel has published."""
        self._let_go()

    def settled(self) -> None:
        """What was settled in a shard is durable there."""
        for channel in self.channels.values():
            channel.check_committed()
        self._let_go()

    def check(self, now_ms: int) -> None:
        super().check(now_ms)
        if 0 < self._leaving_ms <= now_ms:
            self._let_go()

    def when_closed(self, number: int, then: Callable[[], None]) -> None:
        """Go on when a channel is closed in every shard; what comes on it waits."""
        self._closings.append((number, then))
        self.wait(number)
        self.shard_channel_closed()

    def shard_channel_closed(self) -> None:
        closings, self._closings = self._closings, []
        for number, then in closings:
            if any(number in each.closing for each in self.shard_connections.values()):
                self._closings.append((number, then))
            else:
                then()
                self.go_on(number)

    def writable(self, writable: bool) -> None:
        """Whether the socket takes more; if not, shards are to push no more."""
        super().writable(writable)
        self._pause_shards()

    @property
    def owner(self) -> object:
        """Whom exclusive queues belong to; interned, since owners are compared as objects."""
        return self._owner

    def release(self) -> None:
        """Let go of all shards, which give back what the client holds, and delete the exclusive queues; once."""
        if self._released:
            return
        self._released = True
        self._questions.clear()
        self._put_off.clear()
        self._is_leaving = False
        self._closings.clear()
        self.forget_aside()
        for channel in self.channels.values():
            channel.deaf = True
            channel.tags.clear()
            channel.forget_replies()
            self.hub.traffic.keep(channel)
        self.channels.clear()
        shard_connections, self.shard_connections = self.shard_connections, {}
        owned = self.owned.take()
        self.node.soon(lambda: self._end(shard_connections, owned))

    def _end(self, shard_connections: dict[str, ShardConnection], owned: list[Queue]) -> None:
        """Leave the shards; what was said to them before counts."""
        for shard_connection in shard_connections.values():
            shard_connection.flush(urgent=True)
            shard_connection.end()
            self.node.detach(shard_connection)
        for queue in owned:
            self._delete(queue)

    def made_too_late(self, made: object) -> None:
        """Something was made for a channel that has closed meanwhile: an exclusive queue goes with the connection."""
        if isinstance(made, Queue) and made.owner == self._owner:
            if self._released:
                self.node.soon(lambda: self._delete(made))
            else:
                self.owned.add(made)

    def _delete(self, queue: Queue) -> None:
        self.node.insist(DeleteQueue(self.vhost, queue.name, self._owner))
