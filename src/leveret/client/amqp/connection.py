"""A connection without its socket: bytes in, bytes out, and what verbs wait for is finished by what came in.

What is asked for stays with its channel until it is answered. When the socket is lost, the next one begins with all of
it again: channels, consumers, calls that may be repeated, and publishes that were not confirmed, in their order.
"""

from __future__ import annotations

from typing import Any, Protocol

from leveret.client.amqp.channels import CallChannel, ClientChannel, PublishChannel
from leveret.client.amqp.receiving import ReceiveChannel
from leveret.client.amqp.servers import ReconnectPlan
from leveret.client.amqp.traffic import ClientTraffic
from leveret.core import errors
from leveret.core.errors import LeveretError, TooMany, Unreachable
from leveret.version import version
from leveret.wire import methods
from leveret.wire.codec import decode, encode
from leveret.wire.replies import ProtocolError, Reply

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
FRAME_MAX = 131_072
FRAME_MAX_MIN = 4_096
CHANNEL_MAX = 2_047
BODY_BYTES_MAX = 128 * 2**20
"""Of a message that comes: without a limit the server could announce any size, and fill this program's memory."""
CAPABILITIES = (
    "authentication_failure_close",
    "basic.nack",
    "connection.blocked",
    "consumer_cancel_notify",
    "publisher_confirms",
)
ERRORS: dict[int, type[LeveretError]] = {
    Reply.CONTENT_TOO_LARGE: errors.MessageTooLarge,
    Reply.ACCESS_REFUSED: errors.AccessRefused,
    Reply.NOT_FOUND: errors.NotFound,
    Reply.RESOURCE_LOCKED: errors.ResourceLocked,
    Reply.PRECONDITION_FAILED: errors.PreconditionFailed,
    Reply.CONNECTION_FORCED: Unreachable,
    Reply.RESOURCE_ERROR: Unreachable,
    Reply.NOT_IMPLEMENTED: errors.NotSupported,
    Reply.INTERNAL_ERROR: Unreachable,
}
NOT_FOUND = (("no queue", errors.QueueNotFound), ("no exchange", errors.ExchangeNotFound))
FATAL = (errors.AccessRefused, errors.VhostNotFound, errors.NotSupported)
"""What the next attempt would be told again."""


class Closing(Protocol):
    """connection.close or channel.close."""

    @property
    def reply_code(self) -> int: ...
    @property
    def reply_text(self) -> str: ...


def error_of(method: Closing) -> LeveretError:
    """The exception that a close of the server stands for."""
    code, text = method.reply_code, method.reply_text
    kind = ERRORS.get(code, LeveretError)
    if code == Reply.NOT_FOUND:
        kind = next((found for words, found in NOT_FOUND if words in text), kind)
    if code == Reply.NOT_ALLOWED and "vhost" in text:
        kind = errors.VhostNotFound
    hint = ": declare it first" if issubclass(kind, errors.QueueNotFound | errors.ExchangeNotFound) else ""
    return kind(f"{text or f'the server closed with code {code}'}{hint}")


class ClientConnection:
    """What a client asked of a broker, over as many sockets as that takes; not safe for threads by itself."""

    def __init__(
        self, plan: ReconnectPlan, heartbeat_s: int, idempotent: bool, body_bytes_max: int = BODY_BYTES_MAX
    ) -> None:
        self.plan = plan
        self.idempotent = idempotent
        self.state = "down"
        self.blocked: str | None = None
        """Why the broker takes no publishes now."""
        self.server: dict[str, Any] = {}
        """What the server says about itself."""
        self.dirty: list[ReceiveChannel] = []
        self._body_bytes_max = body_bytes_max
        self._heartbeat_s = self._agreed_s = heartbeat_s
        self._heard_ms = self._sent_ms = 0
        self._channel_max = CHANNEL_MAX
        self.traffic = ClientTraffic(body_bytes_max)
        self.publisher = PublishChannel(self, 1)
        self.calls = CallChannel(self, 2)
        self.channels: dict[int, ClientChannel] = {1: self.publisher, 2: self.calls}

    @property
    def up(self) -> bool:
        """Whether channels can be used."""
        return self.state == "up"

    @property
    def wanted(self) -> bool:
        """Whether there is anything to do that needs a connection."""
        return any(channel.wanted for channel in self.channels.values())

    @property
    def product(self) -> str:
        """What the server is called."""
        return str(self.server.get("product", ""))

    def receiver(self, queue: str) -> ReceiveChannel:
        """A new channel to receive messages of a queue."""
        number = next((each for each in range(3, self._channel_max + 1) if each not in self.channels), None)
        if number is None:
            raise TooMany(
                f"all {self._channel_max} channels of the connection are in use: settle messages, or end readers"
            )
        channel = self.channels[number] = ReceiveChannel(self, number, queue)
        return channel

    # Bytes

    def begin(self, now_ms: int) -> bytes:
        """A socket is connected: give the first bytes to send."""
        self.state = "start"
        self._agreed_s = self._heartbeat_s
        self._heard_ms = self._sent_ms = now_ms
        return PROTOCOL_HEADER

    def receive(self, data: bytes, now_ms: int) -> None:
        """Take what came from the socket; an error is the end of it."""
        self._heard_ms = now_ms
        answered = False
        confirmed = self.traffic.confirmed
        for event in self.traffic.receive(data):
            number, method = (event.channel, None) if not isinstance(event, tuple) else (event[0], decode(event[1]))
            if method is not None and number == 0:
                self._on_method(method)
                continue
            channel = self.channels.get(number)
            if channel is None or not channel.opened:
                raise ProtocolError(
                    Reply.CHANNEL_ERROR, f"the server sent something on channel {number}, which is not open"
                )
            answered = True
            if method is None:
                assert not isinstance(event, tuple)
                channel.on_delivery(event)
            elif isinstance(method, methods.ChannelClose):
                answered = False
                self.say(number, methods.ChannelCloseOk())
                self.traffic.forget(number)
                channel.closed(error_of(method))
            else:
                channel.on_method(method)
        if answered or confirmed != self.traffic.confirmed:
            self.plan.succeeded()
        self.publisher.settle()

    def take(self, now_ms: int) -> bytes:
        """What is to be sent."""
        dirty, self.dirty = self.dirty, []
        for channel in dirty:
            channel.write_acks()
        taken = self.traffic.take()
        if taken:
            self._sent_ms = now_ms
        return taken

    def tick(self, now_ms: int) -> int | None:
        """Send a heartbeat if it is time; give the next time, None: never. An error is the end of the connection."""
        if not self._agreed_s or self.state == "down":
            return None
        if now_ms - self._heard_ms >= self._agreed_s * 2_000:
            raise Unreachable(f"the server gave no sign of life for {2 * self._agreed_s} s")
        if now_ms - self._sent_ms >= self._agreed_s * 500:
            self._sent_ms = now_ms
            if self.state != "start":
                self.traffic.heartbeat()
        return min(self._sent_ms + self._agreed_s * 500, self._heard_ms + self._agreed_s * 2_000)

    def say(self, number: int, method: methods.Method) -> None:
        """Write a method."""
        self.traffic.write(number, encode(method))

    # Channel 0

    def _on_method(self, method: methods.Method) -> None:
        state, self.state = self.state, NEXT.get((self.state, type(method)), "")
        if isinstance(method, methods.ConnectionClose):
            self.say(0, methods.ConnectionCloseOk())
            raise self._closed_with(method, state)
        if isinstance(method, methods.ConnectionCloseOk) and state == "closing":
            raise errors.BrokerClosed("the client was closed: connect again")
        if not self.state:
            raise ProtocolError(Reply.COMMAND_INVALID, f"the server sent {method.spec.name} out of order")
        if isinstance(method, methods.ConnectionStart):
            self._start_ok(method)
        elif isinstance(method, methods.ConnectionTune):
            self._tune_ok(method)
        elif isinstance(method, methods.ConnectionBlocked):
            self.blocked = method.reason or "it gives no reason"
        elif isinstance(method, methods.ConnectionUnblocked):
            self.blocked = None
        if self.up:
            for channel in list(self.channels.values()):
                channel.write_more()

    def _closed_with(self, method: methods.ConnectionClose, state: str) -> LeveretError:
        error = error_of(method)
        if state in ("start", "tune", "open") and isinstance(error, errors.AccessRefused):
            return errors.AccessRefused(
                f"{error}: name a user and the password in the URL, amqp://USER:PASSWORD@HOST:PORT, or a token"
            )
        return error if isinstance(error, FATAL) and state != "up" else Unreachable(str(error))

    def _start_ok(self, method: methods.ConnectionStart) -> None:
        self.server = method.server_properties
        offered, server = method.mechanisms.split(), self.plan.server
        mechanism = "PLAIN"
        if b"PLAIN" not in offered:
            if b"EXTERNAL" not in offered:
                raise errors.NotSupported(
                    "the server offers neither PLAIN nor EXTERNAL logins: allow one of them there"
                )
            mechanism = "EXTERNAL"
        secret = f"\0{server.user}\0{server.password}" if mechanism == "PLAIN" else ""
        about: dict[str, Any] = {
            "product": "leveret-python",
            "version": version(),
            "platform": "Python",
            "capabilities": dict.fromkeys(CAPABILITIES, True),
        }
        self.say(0, methods.ConnectionStartOk(about, mechanism, secret.encode(), "en_US"))

    def _tune_ok(self, method: methods.ConnectionTune) -> None:
        frame_max = min(method.frame_max or FRAME_MAX, FRAME_MAX)
        if frame_max < FRAME_MAX_MIN:
            raise ProtocolError(Reply.NOT_ALLOWED, f"the server wants frames of {frame_max} bytes, the least is 4096")
        self._channel_max = min(method.channel_max or CHANNEL_MAX, CHANNEL_MAX)
        if self._heartbeat_s and method.heartbeat:
            self._agreed_s = min(self._heartbeat_s, method.heartbeat)
        self.say(0, methods.ConnectionTuneOk(self._channel_max, frame_max, self._agreed_s))
        self.traffic.tune(frame_max, self._channel_max)
        self.say(0, methods.ConnectionOpen(self.plan.server.vhost))

    # The end

    def close(self) -> bool:
        """Begin to end it in good order; False when there is nothing to wait for."""
        if not self.up:
            return False
        for channel in self.dirty:
            channel.write_acks()
        self.say(0, methods.ConnectionClose(Reply.REPLY_SUCCESS, "Goodbye"))
        self.state = "closing"
        return True

    def lost(self, error: LeveretError) -> None:
        """The socket is gone, or there was none to be had: what can be asked again waits for the next one."""
        self.state = "down"
        self.blocked = None
        self.traffic = ClientTraffic(self._body_bytes_max)
        self.plan.failed(error)
        self.dirty.clear()
        for channel in list(self.channels.values()):
            channel.lost(error)
        if isinstance(error, FATAL) or self.plan.hopeless:
            self.fail(error)

    def fail(self, error: LeveretError) -> None:
        """Nothing comes of what was asked until now."""
        for channel in list(self.channels.values()):
            channel.fail(error)

    def explain(self, seconds: float) -> LeveretError:
        """Why nothing was answered for so long."""
        if self.blocked is not None:
            return Unreachable(f"the broker takes no messages now ({self.blocked}): make room there, then send again")
        if not self.up and self.plan.error is not None:
            return Unreachable(
                f"no server could be reached within {seconds:g} s ({self.plan.error}): see whether it runs"
            )
        return Unreachable(f"no answer came within {seconds:g} s: look at the broker, or give a longer timeout")


NEXT: dict[tuple[str, type[methods.Method]], str] = {
    ("start", methods.ConnectionStart): "tune",
    ("tune", methods.ConnectionTune): "open",
    ("open", methods.ConnectionOpenOk): "up",
    ("up", methods.ConnectionBlocked): "up",
    ("up", methods.ConnectionUnblocked): "up",
    ("closing", methods.ConnectionBlocked): "closing",
    ("closing", methods.ConnectionUnblocked): "closing",
}
"""Which method of the server may come when, and what follows; any other is an error."""
