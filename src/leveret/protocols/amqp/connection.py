"""One connection: bytes in, bytes out; logging in, channels, closing. It never touches a socket or a clock.

    header -> starting -> authenticating -> tuning -> opening -> running -> closing -> finished

The frames are taken apart in session.pyx; what happens on channel 0 in which state is in
handlers/connection.py, what happens when time passes in watch.py.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from leveret.core.errors import AccessRefused
from leveret.core.names import consumer_name
from leveret.core.switch import Switch
from leveret.core.topology import Vhost
from leveret.observability.logs import Log
from leveret.operations.registry import OPERATIONS
from leveret.protocols.amqp import watch
from leveret.protocols.amqp.channel import Channel
from leveret.protocols.amqp.handlers import connection as control
from leveret.protocols.amqp.handshake import LOCALES, mechanisms
from leveret.protocols.amqp.session import FrameSession
from leveret.protocols.amqp.state import HANDSHAKE, UNKNOWN, ConnectionState, Hold, Owned
from leveret.security.authentication import AuthenticatedLogin
from leveret.security.authorisation import admit
from leveret.security.identity import Identity
from leveret.security.logins import LoginAttempt
from leveret.wire import methods
from leveret.wire.codec import decode, encode
from leveret.wire.frames import METHOD, PROTOCOL_HEADER, FrameReader, accepts
from leveret.wire.replies import ProtocolError, Reply, refusal

if TYPE_CHECKING:
    from leveret.protocols.amqp.hub import Hub

# A client gets no more memory than this before it is authenticated, however much it sends meanwhile.
UNKNOWN_BYTES_MAX = 65_536
# Names of consumers stay in the journal for ever: without an end to them a client fills it with one.
NO_ROOM = "low on disk"  # the journal says so before the alarm does
CLOSING_METHODS = frozenset(encode(method)[:4] for method in (methods.ChannelClose(), methods.ChannelCloseOk()))

EXPIRED = "credential expired"  # as RabbitMQ says it where it closes connections

LOG = Log("amqp")
STRANGER_FAILED = LOG.limited("connection failed")


class AmqpPeer(NamedTuple):
    """Who is at the other end of the socket."""

    host: str
    port: int
    tls: bool = False
    certificate_name: str | None = None

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class SocketPort(Protocol):
    """What moves the bytes: writes what the connection has to say, or closes at once."""

    def flush(self) -> None: ...
    def abort(self) -> None: ...


class RefusedLogin(NamedTuple):
    """A login that was refused; the client hears of it when its time has come."""

    due_ms: int
    close: methods.ConnectionClose | None


class AmqpConnection(FrameSession):
    """One client."""

    def __init__(self, hub: Hub, peer: AmqpPeer) -> None:
        super().__init__(FrameReader(hub.limits.frame_max, hub.limits.channel_max), hub.outbox)
        self.hub = hub
        self.peer = peer
        self.id = secrets.token_hex(6)
        self.state = ConnectionState.HEADER
        self.identity: Identity | None = None
        self._renewals = 0
        self.vhost = ""
        self.mechanism = ""
        self.client_properties: dict[str, Any] = {}
        self.client_capabilities: dict[str, Any] = {}
        self.owned = Owned()
        self.heartbeat_ms = 0
        self.since_ms = hub.core.now_ms
        self.received_ms = self.sent_ms = self.since_ms
        self.silent_since_ms: int | None = None  # when it sent something last, if it should have sent something since
        self.received_bytes = self.received_count = self.sent_bytes = self.sent_count = 0
        self.local: tuple[str, int] = ("", 0)
        """Which of our addresses the client has come to."""
        self.entrance: str | None = None
        """The node that has let the client in, if that is another one."""
        self.virtual_host: Vhost | None = None
        self._holds: set[Hold] = set()
        self.refusal: RefusedLogin | None = None
        self.attempt: LoginAttempt | None = None  # the login that waits to be decided, or is being decided
        self._postponed: Callable[[], None] | None = None
        self._header_refused = False
        self.client_closes = False
        """Whether the client is the one to close the socket: it has connection.close-ok, or its login was refused."""
        self._released = False
        self.socket: SocketPort | None = None
        hub.connections.add(self)

    # Bytes

    def receive(self, data: bytes | bytearray | memoryview) -> None:
        """Take what came from the socket; never raises for what a client sent."""
        self.received_ms = self.hub.core.engine.now_ms
        self.received_bytes += len(data)
        self.received_count += 1
        if self.finished or self.unreadable:
            return
        self.check_virtual_host()
        self.reader.feed(data)
        if self.state in UNKNOWN and self.reader.buffered_bytes > UNKNOWN_BYTES_MAX:
            self.finish()
        elif self.state is not ConnectionState.HEADER or self._greet():
            self.drain()

    def take_output(self) -> bytes:
        data = self.outlet.take_all() if self.finished else self.outlet.take()
        if data:
            self.sent_ms = self.hub.core.engine.now_ms
            self.sent_bytes += len(data)
            self.sent_count += 1
        if self._holds and not self.outlet.paused and not self.outlet.is_overfull:
            self.let_go(Hold.OUTPUT)
        if self._header_refused:
            self._header_refused = False
            return PROTOCOL_HEADER
        return data

    def flush(self) -> None:
        if self.socket is not None:
            self.socket.flush()

    def abort(self) -> None:
        if self.socket is not None:
            self.socket.abort()

    def say(self, method: methods.Method, number: int = 0) -> None:
        self.outlet.method(number, encode(method))
        self.outlet.note()

    def _greet(self) -> bool:
        """Answer the protocol header; False when there is nothing more to read."""
        header = self.reader.protocol_header()
        if header is None:
            return False
        if not accepts(header):
            self._header_refused = True
            self.finish()
            return False
        names = mechanisms(self.peer.certificate_name is not None)
        self.say(methods.ConnectionStart(0, 9, self.hub.server_properties, " ".join(names).encode(), LOCALES))
        self.state = ConnectionState.STARTING
        return True

    # Frames: see Session

    def current_stamp(self) -> int:
        """A number that changes whenever a route may lead elsewhere, or be forbidden."""
        if self.virtual_host is None:
            return 0
        return (self.virtual_host.generation + self._renewals) << 32 | self.hub.access.generation

    def on_frame(self, kind: int, number: int, payload: bytes) -> None:
        """A frame came before the connection was open, or on a channel that is not."""
        if self.state is ConnectionState.CLOSING and number:
            return
        if number == 0:
            if kind == METHOD:
                control.handle(self, decode(payload))
        elif self.state is not ConnectionState.RUNNING:
            raise ProtocolError(Reply.UNEXPECTED_FRAME, f"channel {number} is used before connection.open was answered")
        elif number in self.channels:
            self._answer_closing(self.channels[number], kind, payload)
        elif kind != METHOD:
            raise ProtocolError(Reply.UNEXPECTED_FRAME, "expected method frame, got non method frame instead")
        elif isinstance(decode(payload), methods.ChannelOpen):
            self._open_channel(number)
        else:
            raise ProtocolError(Reply.CHANNEL_ERROR, "expected 'channel.open'")

    def _answer_closing(self, channel: Channel, kind: int, payload: bytes) -> None:
        """Hear nothing of a channel that is being closed but the end of that."""
        if kind == METHOD and payload[:4] in CLOSING_METHODS:
            channel.command(decode(payload))

    def on_method(self, number: int, payload: bytes) -> None:
        method = decode(payload)
        if isinstance(method, methods.ChannelOpen):
            raise ProtocolError(Reply.CHANNEL_ERROR, "second 'channel.open' seen")
        self.channels[number].command(method)

    def _open_channel(self, number: int) -> None:
        self.check_channel()
        channel = self.new_channel(number)
        self.channels[number] = channel
        self.hub.opened["channel"] += 1
        channel.say(methods.ChannelOpenOk())

    def check_channel(self) -> None:
        """Refuse one channel too many; as in RabbitMQ, channel_max limits how many there are, not their numbers."""
        if len(self.channels) >= self.reader.channel_max:
            raise ProtocolError(
                Reply.NOT_ALLOWED,
                f"number of channels opened ({len(self.channels)}) has reached the negotiated channel_max "
                f"({self.reader.channel_max})",
            )
        self.hub.quotas.check_channel(self.user_name)

    @property
    def firehose(self) -> Switch:
        """Whether what its channels publish and get is copied."""
        assert self.virtual_host is not None, "channels are opened in a virtual host"
        return self.virtual_host.firehose

    def new_channel(self, number: int) -> Channel:
        return Channel(self, number)

    def dispatch(self) -> None:
        self.hub.runtime.dispatch()

    def on_output_full(self) -> None:
        self.hold(Hold.OUTPUT)

    def on_publish_in_alarm(self) -> None:
        """A publish came while there is no room: it waits, and all that comes after it."""
        self.hold(Hold.ALARM)
        self._tell_blocked(True)

    def postpone(self, publish: Callable[[], None]) -> None:
        """Go on with a message when there is room for it; until then it waits, and all that comes after it."""
        self._postponed = publish
        self.on_publish_in_alarm()

    def on_error(self, error: Exception, number: int, class_id: int, method_id: int) -> None:
        refused = refusal(error)
        if refused is not error and refused.code is Reply.INTERNAL_ERROR:
            LOG.error("frame could not be dealt with", error, **self.who)
        channel: Channel | None = self.channels.get(number)
        if channel is not None and not refused.closes_connection:
            channel.fail(refused, class_id, method_id)
        else:
            self.fail(refused, class_id, method_id)

    # Connections that are not read for a while

    def hold(self, reason: Hold) -> None:
        """Process nothing that comes until the reason has ended."""
        self._holds.add(reason)
        self.waiting = True
        self.outlet.note()

    def let_go(self, reason: Hold) -> None:
        """A reason has ended; the hub goes on with what has come meanwhile."""
        if reason not in self._holds:
            return
        self._holds.discard(reason)
        if self.waiting and not self._holds:
            self.waiting = False
            self.received_ms = self.hub.core.engine.now_ms
            self.hub.resumed(self)
        self.outlet.note()

    @property
    def wants_input(self) -> bool:
        return not self.waiting

    def writable(self, writable: bool) -> None:
        self.outlet.paused = not writable
        self.outlet.note()

    def set_alarm(self, reason: str | None) -> None:
        self.alarmed = reason is not None
        if Hold.ALARM in self._holds and not self.alarmed:
            self._tell_blocked(False)
            self._take_up()
            self.let_go(Hold.ALARM)

    def _take_up(self) -> None:
        """Go on with the message that was postponed, if there is one."""
        postponed, self._postponed = self._postponed, None
        if postponed is not None:
            postponed()

    def _tell_blocked(self, blocked: bool) -> None:
        if self.client_capabilities.get("connection.blocked") is True:
            self.say(methods.ConnectionBlocked(self.hub.alarm or NO_ROOM) if blocked else methods.ConnectionUnblocked())

    # Logging in

    def logged_in(self, login: AuthenticatedLogin) -> None:
        """Go on with what was decided about a login; called by the hub, under the lock of the runtime."""
        if not self.finished:
            self.let_go(Hold.LOGIN)
            control.logged_in(self, login)

    def renewed(self, login: AuthenticatedLogin) -> None:
        if not self.finished:
            self.let_go(Hold.LOGIN)
            control.renewed(self, login)

    def renew(self, identity: Identity) -> None:
        """Go on with a new token of the same user: what it does not allow any more ends."""
        self.identity = identity
        self._renewals += 1
        for channel in tuple(self.channels.values()):
            channel.check_consumers()

    def check_access(self) -> None:
        """End what the user may not go on with: its consumers, or the connection."""
        self.check_virtual_host()
        if self.state is not ConnectionState.RUNNING or self.identity is None:
            return
        try:
            admit(self.hub.access.permissions, self.identity, OPERATIONS["connection.open"].rule, self.vhost)
        except AccessRefused as error:
            self.ask_close(Reply.NOT_ALLOWED, f"NOT_ALLOWED - {error}")
            return
        for channel in tuple(self.channels.values()):
            channel.check_consumers()

    def check_virtual_host(self) -> None:
        """Close the connection of a deleted user, in a deleted virtual host, or with an expired token."""
        if self.state is not ConnectionState.RUNNING:
            return
        hub, vhost, identity = self.hub, self.vhost, self.identity
        assert identity is not None, "a running connection has logged in"
        if hub.core.topology.vhosts.get(vhost) is not self.virtual_host:
            self.ask_close(Reply.CONNECTION_FORCED, f"CONNECTION_FORCED - vhost '{vhost}' is deleted")
        elif identity.local and identity.user not in hub.access.users:
            self.ask_close(Reply.CONNECTION_FORCED, f"CONNECTION_FORCED - user '{identity.user}' is deleted")
        elif identity.expires_ms is not None and self.has_expired(hub.core.now_ms):
            LOG.info("token expired", **self.who, user=identity.user)
            self.ask_close(Reply.CONNECTION_FORCED, f"CONNECTION_FORCED - {EXPIRED}")

    def has_expired(self, now_ms: int) -> bool:
        return self.identity is not None and self.identity.has_expired(now_ms)

    def refuse_login(self, login: AuthenticatedLogin) -> None:
        """Tell a client that it is not let in; after several failures later."""
        told = self.client_capabilities.get("authentication_failure_close") is True
        text = (
            f"ACCESS_REFUSED - Login was refused using authentication mechanism {self.mechanism}. "
            "For details see the broker logfile."
        )
        close = methods.ConnectionClose(Reply.ACCESS_REFUSED, text) if told else None
        self.refusal = RefusedLogin(self.hub.core.now_ms + login.delay_ms, close)
        if login.delay_ms:
            self.hold(Hold.LOGIN)
        else:
            watch.tell_refusal(self, self.refusal, self.hub.core.now_ms)

    def enter(self, vhost: str) -> None:
        self.vhost = vhost
        self.virtual_host = self.hub.core.topology.vhost(vhost)
        self.alarmed = self.hub.alarm is not None
        self.state = ConnectionState.RUNNING
        self.started = True
        self.hub.opened["connection"] += 1
        facts = {"user": self.user_name, "vhost": vhost, "mechanism": self.mechanism, "tls": self.peer.tls}
        LOG.info("connection opened", **self.who, **facts, name=self.client_properties.get("connection_name"))

    @property
    def who(self) -> dict[str, object]:
        """What every event about it has: an address is used again by others, an id is not."""
        return {"peer": self.peer, "connection": self.id}

    def admit(self, identity: Identity, vhost: str, client_properties: dict[str, Any]) -> None:
        """Open the connection of a client that another node has let in."""
        self.identity = identity
        self.client_properties = client_properties
        self.client_capabilities = client_properties.get("capabilities", {})
        self.reader.tune(self.reader.frame_max_offered, self.reader.channel_max_offered)
        self.outlet.tune(self.reader.frame_max_offered)
        self.enter(vhost)

    @property
    def name(self) -> str:
        """Both ends, which is how operators know a connection."""
        return f"{self.peer} -> {AmqpPeer(*self.local)}"

    @property
    def blocked(self) -> bool:
        return Hold.ALARM in self._holds

    @property
    def user_name(self) -> str:
        return "" if self.identity is None else self.identity.user

    @property
    def owner(self) -> object:
        return self

    @property
    def consumer_name(self) -> str:
        """How the journal knows the consumers of this connection; not by tags: clients make up a new one each time."""
        return consumer_name(self.user_name, self.client_properties.get("connection_name"))

    def check(self, now_ms: int) -> None:
        """About a second has passed."""
        watch.check(self, now_ms)

    # Ending

    def fail(self, refused: ProtocolError, class_id: int = 0, method_id: int = 0) -> None:
        """End the connection with an error; who has not logged in yet is told nothing."""
        if self.state in UNKNOWN:
            STRANGER_FAILED.note(**self.who, reason=refused.text)
            self.finish()
            return
        LOG.warning("connection failed", **self.who, user=self.user_name, reason=refused.text)
        if self.state is not ConnectionState.CLOSING:
            self._close(methods.ConnectionClose(refused.code, refused.text, class_id, method_id))

    def ask_close(self, code: int, text: str) -> None:
        if self.state in HANDSHAKE:
            self.finish()
        elif self.state is ConnectionState.RUNNING:
            self._close(methods.ConnectionClose(code, text))

    def _close(self, close: methods.ConnectionClose) -> None:
        """Say why, and wait for close-ok: whatever kept us from listening does not count any more."""
        self.release()
        for reason in tuple(self._holds):
            self.let_go(reason)
        self.say(close)
        self.state = ConnectionState.CLOSING
        self.since_ms = self.hub.core.now_ms

    def finish(self) -> None:
        self.state = ConnectionState.CLOSED
        self.finished = True
        if self.attempt is not None:
            self.attempt.cancel()
            self.attempt = None
        self.outlet.note()
        self.release()

    def lost(self) -> None:
        try:
            self.finish()
        finally:
            self.outlet.close()
            self.socket = None
            self.hub.connections.discard(self)
            self.hub.short_heartbeats.discard(self)
            if self.identity is not None:
                LOG.info("connection closed", **self.who, user=self.user_name)
            else:  # costs a client nothing: a flood of them must not fill the log
                LOG.debug("connection closed", **self.who)

    def release(self) -> None:
        """Give back what the channels hold, and delete the exclusive queues; once."""
        if self._released:
            return
        self._released = True
        with ExitStack() as steps:  # last in, first out, and all of them: what cannot be read holds up nothing else
            steps.callback(self.owned.delete_all, self.hub.core)
            steps.callback(self._take_up)
            for channel in reversed(self.channels.values()):
                self.hub.traffic.keep(channel)
                steps.callback(channel.release)
            self.channels.clear()
