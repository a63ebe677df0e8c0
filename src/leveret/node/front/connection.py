"""A client's connection to a node: what it asks for is done by the shards of the queues that it names.

Logging in, permissions and definitions are this node's, from its copy of the catalog; messages go to and come from a
`Backend` for each shard.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from leveret.amqp.connection import Connection, Peer
from leveret.amqp.methods import ConnectionBlocked, ConnectionClose, ConnectionUnblocked, Method
from leveret.amqp.replies import Reply
from leveret.amqp.state import HANDSHAKE, Hold, State
from leveret.amqp.traffic import Traffic
from leveret.amqp.watch import check_home
from leveret.core.changes import Change, DeleteQueue
from leveret.core.queue import Queue
from leveret.node.claims import Name
from leveret.node.front.backend import Backend, Session
from leveret.node.front.branch import Branch
from leveret.node.front.channel import FrontChannel
from leveret.security.users import User

if TYPE_CHECKING:
    from leveret.amqp.hub import Hub

CLOSE = b"\0\x0a\0\x32"  # connection.close
SETTLING_MS = 5_000  # that a client who leaves waits for the disks of its shards

T = TypeVar("T")


class Caller(NamedTuple):
    """Who asks a shard for something: a client that this node has let in."""

    peer: Peer
    user: User
    vhost: str
    client_properties: dict[str, object]
    local: tuple[str, int] = ("", 0)
    """Which address of its node it has come to."""
    node: str | None = None


class Node(Protocol):
    """What the front needs of its node."""

    @property
    def version(self) -> int:
        """The version of the definitions that clients are served by."""

    @property
    def is_current(self) -> bool:
        """Whether clients may be served by them: nobody has changed them elsewhere without this node's knowing."""

    def hold(self, connection: FrontConnection) -> None:
        """Let a client be heard again (`FrontConnection.trust`) as soon as they may be."""

    def home_of(self, vhost: str, queue: str) -> str:
        """The shard of a queue."""

    def change(self, change: Change[T], done: Callable[[T | Exception], None]) -> None:
        """Change a definition on every node, then say what came of it; in the thread of the hub, not under a lock."""

    def insist(self, change: Change[Any]) -> None:
        """Change a definition on every node, with as many attempts as it takes; nobody waits for it."""

    def attach(self, backend: Backend, caller: Caller) -> None:
        """Find a way to the owner of a shard, now and whenever it changes; `FrontConnection.attached` is told."""

    def detach(self, backend: Backend) -> None:
        """Nobody needs that way any more."""

    def soon(self, job: Callable[[], None]) -> None:
        """Do something in the thread of the hub when nobody holds a lock."""

    def identify(self) -> str:
        """Another name for somebody whom queues may belong to, the only one of its kind in the cluster."""


class FrontConnection(Connection):
    """One client of a node."""

    def __init__(self, hub: Hub, peer: Peer, node: Node) -> None:
        """Wait for the protocol header."""
        super().__init__(hub, peer)
        self.node = node
        self._identity = sys.intern(node.identify())
        self.backends: dict[str, Backend] = {}
        self._noted: list[Backend] = []
        self._questions = 0
        self._late: list[Callable[[], object]] = []
        self._closings: list[Callable[[], None]] = []
        self._leaving: Callable[[], None] | None = None
        self._leaving_ms = 0
        self._blocking: set[Backend] = set()

    def new_channel(self, number: int) -> FrontChannel:
        """A channel whose messages are in shards."""
        return FrontChannel(self, number)

    def take_unconfirmed(self) -> list[tuple[Traffic, int]]:
        """Nothing: shards confirm what they have."""
        super().take_unconfirmed()
        return []

    def receive(self, data: bytes | bytearray | memoryview) -> None:
        """Take what came from the socket; it is looked at when this node knows the newest definitions."""
        if not self.node.is_current:
            self.doubt()
        super().receive(data)

    def doubt(self) -> None:
        """Definitions may be others by now: the client is not heard, and gets nothing."""
        if self.state is State.RUNNING or self.state in HANDSHAKE:
            self.hold(Hold.DEFINITIONS)
            self._pause_shards()
            self.node.hold(self)

    def trust(self) -> None:
        """They are not, or this node knows; what has come meanwhile is not heard from who may not be here any more."""
        check_home(self)
        self.let_go(Hold.DEFINITIONS)
        self._pause_shards()

    @property
    def doubted(self) -> bool:
        """Whether the client waits for that."""
        return Hold.DEFINITIONS in self._holds

    @property
    def _is_quiet(self) -> bool:
        """Whether shards are to push nothing."""
        return self.outlet.paused or self.doubted

    def _pause_shards(self) -> None:
        for backend in self.backends.values():
            backend.pause(self._is_quiet)

    # To shards

    def backend(self, home: str) -> Backend:
        """What this client has in a shard."""
        found = self.backends.get(home)
        if found is None:
            found = self.backends[home] = Backend(self, home)
            assert self.user is not None, "nobody opens a channel without logging in"
            caller = Caller(self.peer, self.user, self.vhost, self.client_properties, self.local, self.hub.replies.node)
            self.node.soon(lambda: self.node.attach(found, caller))
        return found

    def note(self, backend: Backend) -> None:
        """A backend has something to send; if it cannot, the client waits until it can."""
        if not self._noted:
            self.node.soon(self._send)
        self._noted.append(backend)
        if not backend.attached:
            self.hold(Hold.SHARD)

    def _send(self) -> None:
        """Send what was said, once to each shard."""
        noted, self._noted = self._noted, []
        for backend in noted:
            backend.flush()

    def wait(self) -> None:
        """Hear nothing from the client until a question is answered."""
        self._questions += 1
        self.hold(Hold.SHARD)

    def go_on(self) -> None:
        """A question was answered."""
        self._questions -= 1
        self._let_go()

    def tell_later(self, tell: Callable[[], object]) -> None:
        """Tell the client something when it has its answers: some fail that hear of anything else before."""
        self._late.append(tell)
        self.tell_late()

    def tell_late(self) -> None:
        """Tell what was to be told later, if the client waits for nothing."""
        if not self._questions:
            late, self._late = self._late, []
            for tell in late:
                tell()

    def _let_go(self) -> None:
        if not self._questions and all(each.attached and not each.busy for each in self.backends.values()):
            self.let_go(Hold.SHARD)

    # From shards: called by sessions, not under a lock

    def attached(self, backend: Backend, session: Session) -> None:
        """There is a way to a shard."""

        def attach() -> None:
            backend.attach(session)
            session.pause(self._is_quiet)
            self._let_go()

        self.hub.finish(self, attach)

    def receive_from(self, backend: Backend, data: bytes) -> None:
        """Frames came from a shard."""
        if not self._released:
            self.hub.finish(self, lambda: backend.receive(data))

    def held_by(self, backend: Backend) -> None:
        """A shard hears nothing more for a while, or again."""
        if not self._released:
            self.hub.finish(self, (lambda: self.hold(Hold.SHARD)) if backend.busy else self._let_go)

    def lost_backend(self, backend: Backend) -> None:
        """The way to a shard has ended; what the shard knew of this client has to be told again."""
        if not self._released:
            self.hub.finish(self, lambda: self._lost(backend))

    def _lost(self, backend: Backend) -> None:
        for channel in self.channels.values():
            channel.lost(backend.home)
        backend.detach()
        self.blocked_by(backend, ConnectionUnblocked())
        self.hold(Hold.SHARD)
        self.branch_closed()  # no shard that is gone says so any more

    def gone_backend(self, backend: Backend) -> None:
        """A shard went with its node and will have no other owner: what the client has there concerns nobody."""
        if not self._released:
            self.hub.finish(self, lambda: self._gone(backend))

    def _gone(self, backend: Backend) -> None:
        del self.backends[backend.home]
        for channel in list(self.channels.values()):
            channel.gone(backend.home)
        self.branch_closed()
        self._let_go()

    def held(self, branch: Branch) -> list[tuple[str, Name]]:
        """What the client holds of a shard on a channel."""
        channel: FrontChannel = self.channels[branch.number]
        return channel.tags.held(branch)

    def came(self, branch: Branch, method: bytes, content: bytes, header_len: int) -> None:
        """A message came on a channel."""
        self.channels[branch.number].came(branch, method, content, header_len)

    def heard(self, branch: Branch, method: Method) -> None:
        """A method without content came on a channel."""
        self.channels[branch.number].heard(branch, method)

    def refused(self, method: ConnectionClose) -> None:
        """A shard has closed the connection: what was wrong with a frame is wrong for the whole of it."""
        if method.reply_code != Reply.CONNECTION_FORCED and self.state is State.RUNNING:
            self._close(method)

    def blocked_by(self, backend: Backend, method: ConnectionBlocked | ConnectionUnblocked) -> None:
        """A shard takes no publishes because its node is short of something, or takes them again."""
        before = bool(self._blocking)
        if isinstance(method, ConnectionBlocked):
            self._blocking.add(backend)
        else:
            self._blocking.discard(backend)
        if bool(self._blocking) is not before:
            self.say(method)

    # Ending

    def on_frame(self, kind: int, number: int, payload: bytes) -> None:
        """A frame came on no open channel; a client that leaves is told so when what it has settled is safe."""
        unsure = [each for each in self.backends.values() if not each.is_sure]
        if number or not unsure or not payload.startswith(CLOSE) or self.state is not State.RUNNING:
            super().on_frame(kind, number, payload)
            return
        self._leaving = partial(super().on_frame, kind, number, payload)
        self._leaving_ms = self.hub.core.now_ms + SETTLING_MS
        self.wait()
        for backend in unsure:
            backend.hurry()

    def settled(self) -> None:
        """What was settled in a shard is durable there."""
        if all(each.is_sure for each in self.backends.values()):
            self._leave()

    def check(self, now_ms: int) -> None:
        """Time has passed."""
        super().check(now_ms)
        if now_ms >= self._leaving_ms:
            self._leave()

    def _leave(self) -> None:
        leaving, self._leaving = self._leaving, None
        if leaving is not None:
            self.go_on()
            leaving()

    def when_closed(self, then: Callable[[], None]) -> None:
        """Go on when every channel that is being closed in a shard is."""
        self._closings.append(then)
        self.wait()
        self.branch_closed()

    def branch_closed(self) -> None:
        """A channel is closed in a shard."""
        if not any(each.is_closing for each in self.backends.values()):
            closings, self._closings = self._closings, []
            for then in closings:
                self.go_on()
                then()

    def writable(self, writable: bool) -> None:
        """Whether the socket takes more; if not, shards are to push no more."""
        super().writable(writable)
        self._pause_shards()

    @property
    def identity(self) -> object:
        """Whom exclusive queues belong to; interned, since owners are compared as objects."""
        return self._identity

    def release(self) -> None:
        """Let go of all shards, which give back what the client holds, and delete the exclusive queues; once."""
        if self._released:
            return
        self._released = True
        self._leaving = None
        for channel in self.channels.values():
            channel.deaf = True
            channel.tags.clear()
            channel.forget_replies()
            self.hub.traffic.keep(channel)
        self.channels.clear()
        backends, self.backends = self.backends, {}
        owned = self.owned.take()
        self.node.soon(lambda: self._end(backends, owned))

    def _end(self, backends: dict[str, Backend], owned: list[Queue]) -> None:
        """Leave the shards; what was said to them before counts."""
        for backend in backends.values():
            backend.flush(urgent=True)
            backend.end()
            self.node.detach(backend)
        for queue in owned:
            self._delete(queue)

    def made_too_late(self, made: object) -> None:
        """Something was made for a channel that has closed meanwhile: an exclusive queue goes with the connection."""
        if isinstance(made, Queue) and made.owner == self._identity:
            if self._released:
                self.node.soon(lambda: self._delete(made))
            else:
                self.owned.add(made)

    def _delete(self, queue: Queue) -> None:
        self.node.insist(DeleteQueue(self.vhost, queue.name, self._identity))
