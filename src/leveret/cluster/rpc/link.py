"""A link between two nodes: one connection, on which both open streams once they are authenticated.

dial or accept -> handshake (leveret.cluster.rpc.wire) -> up, PING both ways -> ... -> down: every stream ends
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar, cast

from leveret.cluster.rpc import wire
from leveret.cluster.rpc.wire import REASON_CHARACTERS_MAX, FrameKind, Handshake, HandshakeRefused, LinkFrame
from leveret.core.errors import InvalidArgument, LeveretError
from leveret.observability.logs import Log
from leveret.security.tls import channel_binding

HANDSHAKE_S = 10.0
PING_S = 1.0
UNANSWERED_PINGS_MAX = (
    4  # beats of ours, not seconds: a node that stood still itself hears first what has come meanwhile
)
UNSENT_BYTES_HIGH = 4 << 20  # what waits for a slow peer before its streams pause, and outbox messages in outboxes
PIECE_BYTES = 1 << 20  # of what is said at once: what others say comes in between
DOWN = "the link is down"  # why a stream ends if neither side has ended it
LOST = "its connection was lost"
SILENT = f"it has said nothing for {PING_S * (UNANSWERED_PINGS_MAX + 1):g} s"

T = TypeVar("T")
LOG = Log("node")


class LinkStream(Protocol):
    """One end of a stream."""

    def heard(self, data: bytes) -> None:
        """The other end says something."""

    def paused(self, paused: bool) -> None:
        """The other end, or the link, wants to hear no more for a while, or again."""

    def ended(self, reason: str) -> None:
        """The other end has nothing more to say, or the link is down."""


class LinkOwner(Protocol):
    """What a link needs of its node."""

    name: str
    cluster: str
    keys: tuple[bytes, ...]
    """By which nodes prove that they know the cluster's secret, the current one first."""

    def up(self, link: PeerLink) -> None:
        """Another node is reached."""

    def down(self, link: PeerLink) -> None:
        """It is not any more."""

    def opened(self, link: PeerLink, number: int, request: dict[str, Any]) -> LinkStream:
        """Another node opens a stream; raises what is refused."""

    def asked(self, link: PeerLink, request: bytes, answer: Callable[[bytes], None]) -> None:
        """Another node asks for something."""


class PeerLink(asyncio.Protocol):
    """One connection to another node."""

    def __init__(self, peers: LinkOwner, calls: str | None) -> None:
        self.peer = ""
        self._peers = peers
        self._calls = calls
        self._transport: asyncio.Transport | None = None
        self._reader = wire.LinkReader()
        self._handshake: Handshake | None = None
        self._known = False
        self._refused = False
        self._streams: dict[int, LinkStream] = {}
        self._answers: dict[int, Callable[[bytes | None], None]] = {}
        # Both ends number what they begin, one by odd numbers, the other by even ones.
        self._last_number = 2 if calls is None else 1
        self._slow = False
        self._unheard: set[int] = set()  # streams whose other end wants to hear no more for a while
        self.received_bytes = 0
        self.sent_bytes = 0
        self.why_down = LOST
        """What it will have ended by, unless something else is said first."""
        self._timer: asyncio.TimerHandle | None = None
        self._silent_beats = 0
        self._decided = asyncio.Event()

    async def introduced(self) -> bool:
        """Whether the other node has let us in, as soon as that is known."""
        await self._decided.wait()
        return self.is_up

    @property
    def is_up(self) -> bool:
        """Whether the other node is who it says it is, and can be talked to."""
        return self._known and self._transport is not None

    @property
    def certificate(self) -> bytes | None:
        """The certificate (DER) that the other node has shown; None: none, or the link is down."""
        tls = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        return None if tls is None else tls.getpeercert(binary_form=True)

    # From the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake; it has a deadline."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=UNSENT_BYTES_HIGH)
        self._timer = asyncio.get_running_loop().call_later(HANDSHAKE_S, self.close)
        own = (self._peers.name, self._peers.cluster, self._peers.keys, self._calls)
        try:
            binding = channel_binding(self._transport.get_extra_info("ssl_object"))
            self._handshake = Handshake(*own, binding, lambda kind, payload: self._say(kind, 0, payload))
        except LeveretError as error:
            self._refuse(error)

    def data_received(self, data: bytes) -> None:
        """Do what the other node says; what it should not have said ends the link."""
        if self._refused:
            return
        self.received_bytes += len(data)
        self._silent_beats = 0
        try:
            for message in self._reader.feed(data):
                self._handle(message)
        except LeveretError as error:
            self._refuse(error)

    def _refuse(self, error: LeveretError) -> None:
        """End the link; tell the other node why if it does not know. The deadline ends one that does not go."""
        LOG.warning("link refused", peer=self.peer or self._calls, reason=error)
        self.why_down = str(error)
        self._refused = True
        if self._known or isinstance(error, HandshakeRefused) or self._transport is None:
            self.close()
            return
        self._say(FrameKind.CLOSE, 0, str(error)[:REASON_CHARACTERS_MAX].encode(errors="replace"))
        self._transport.close()

    def pause_writing(self) -> None:
        self._slow = True
        for each in list(self._streams.values()):
            each.paused(True)

    def resume_writing(self) -> None:
        self._slow = False
        for number, each in list(self._streams.items()):
            if number not in self._unheard:
                each.paused(False)

    def connection_lost(self, error: Exception | None) -> None:
        """The link is down, and everything on it."""
        if self._timer is not None:
            self._timer.cancel()
        was_up, self._transport = self.is_up, None
        self._decided.set()
        streams, self._streams = self._streams, {}
        answers, self._answers = self._answers, {}
        for each in streams.values():
            self._tell(each.ended, DOWN)
        for answer in answers.values():
            self._tell(answer, None)
        if was_up:
            LOG.info("link down", peer=self.peer)
            self._peers.down(self)

    def _tell(self, hear: Callable[[T], None], what: T) -> None:
        """Tell one of many; if it fails at that, the others are told all the same."""
        try:
            hear(what)
        except Exception as error:
            LOG.error("link ended badly", error, peer=self.peer)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _beat(self) -> None:
        """Say that we are there; hang up when the other node says nothing, which TCP would do after minutes."""
        if self._silent_beats > UNANSWERED_PINGS_MAX:
            LOG.warning("link silent", peer=self.peer)
            self.why_down = SILENT
            self.close()
            return
        self._silent_beats += 1
        self._say(FrameKind.PING, 0)
        self._timer = asyncio.get_running_loop().call_later(PING_S, self._beat)

    # Streams

    def open(self, request: dict[str, Any], stream: LinkStream) -> int:
        """Begin a stream; give its number."""
        number = self._next_number()
        if self._transport is None:
            asyncio.get_running_loop().call_soon(stream.ended, DOWN)
            return number
        self._say(FrameKind.OPEN, number, wire.packed(request))
        self._begin(number, stream)
        return number

    def _begin(self, number: int, stream: LinkStream) -> None:
        self._streams[number] = stream
        if self._slow:
            stream.paused(True)

    def send(self, number: int, data: bytes) -> None:
        """Say something, in pieces if it is long."""
        if len(data) <= PIECE_BYTES:
            self._say(FrameKind.DATA, number, data)
            return
        for start in range(0, len(data), PIECE_BYTES):
            self._say(FrameKind.DATA, number, data[start : start + PIECE_BYTES])

    def pause(self, number: int, paused: bool) -> None:
        """Ask the other end to say no more for a while, or to go on."""
        self._say(FrameKind.PAUSE if paused else FrameKind.RESUME, number)

    def end(self, number: int, reason: str = "") -> None:
        """Have nothing more to say."""
        if self._streams.pop(number, None) is not None:
            self._unheard.discard(number)
            self._say(FrameKind.CLOSE, number, reason.encode())

    def ask(self, request: bytes, answered: Callable[[bytes | None], None]) -> None:
        """Ask something; the answer is None when the link goes down before it comes, or is."""
        if self._transport is None:
            asyncio.get_running_loop().call_soon(answered, None)
            return
        if wire.is_too_long(request):
            answered(wire.too_long(request))
            return
        number = self._next_number()
        self._answers[number] = answered
        self._say(FrameKind.ASK, number, request)

    @property
    def is_slow(self) -> bool:
        return self._slow

    def _next_number(self) -> int:
        """A number that nothing under way has: a link may last for longer than there are any."""
        while True:
            self._last_number = (self._last_number + 2) % wire.NUMBERS
            if self._last_number not in self._streams and self._last_number not in self._answers:
                return self._last_number

    def _say(self, kind: FrameKind, number: int, payload: bytes = b"") -> None:
        if self._transport is not None:
            data = wire.encode(kind, number, payload)
            self.sent_bytes += len(data)
            self._transport.write(data)

    # What the other node says

    def _handle(self, message: LinkFrame) -> None:
        if not self._known:
            self._authenticate(message)
        elif message.kind is FrameKind.OPEN:
            self._open(message.number, message.payload)
        elif message.kind is FrameKind.ASK:
            self._answer(message.number, message.payload)
        elif message.kind is FrameKind.PING:
            return
        elif message.kind is FrameKind.ANSWER:
            answered = self._answers.pop(message.number, None)
            if answered is not None:
                answered(message.payload)
        elif message.kind is not FrameKind.UNKNOWN:
            self._talk(message)

    def _answer(self, number: int, request: bytes) -> None:
        """Answer a question; one that this node does not understand is refused, and ends nothing."""
        answer = partial(self._tell_answer, number)
        try:
            self._peers.asked(self, request, answer)
        except Exception as error:  # whatever is wrong with it: others talk on this link, too
            LOG.warning("question refused", peer=self.peer, reason=error)
            answer(wire.refusal(error))

    def _tell_answer(self, number: int, answer: bytes) -> None:
        self._say(FrameKind.ANSWER, number, wire.too_long(answer) if wire.is_too_long(answer) else answer)

    def _talk(self, message: LinkFrame) -> None:
        """Go on with a stream; one that has just ended needs to hear nothing more."""
        found = self._streams.get(message.number)
        if found is None:
            return
        if message.kind is FrameKind.DATA:
            found.heard(message.payload)
        elif message.kind is FrameKind.CLOSE:
            del self._streams[message.number]
            self._unheard.discard(message.number)
            found.ended(message.payload.decode(errors="replace"))
        elif message.kind is FrameKind.PAUSE:
            self._unheard.add(message.number)
            found.paused(True)
        elif message.kind is FrameKind.RESUME:
            self._unheard.discard(message.number)
            if not self._slow:
                found.paused(False)

    def _open(self, number: int, payload: bytes) -> None:
        """Begin a stream, unless it is refused, or this node does not understand what it is about."""
        if number in self._streams:
            raise InvalidArgument(f"node '{self.peer}' opens conversation {number} twice")
        try:
            self._begin(number, self._peers.opened(self, number, wire.unpacked(payload)))
        except Exception as error:  # whatever is wrong with it: others talk on this link, too
            if not isinstance(error, LeveretError):
                LOG.error("conversation refused", error, peer=self.peer)
            self._say(FrameKind.CLOSE, number, str(error).encode())

    # The handshake

    def _authenticate(self, message: LinkFrame) -> None:
        """Go on with the handshake; when it is done, let the node use the link."""
        assert self._handshake is not None, "nothing is received before there is a connection"
        try:
            self._handshake.receive(message)
        finally:
            self.peer = self._handshake.peer
        if not self._handshake.is_done:
            return
        self._known, self._handshake = True, None
        self._decided.set()
        self._reader.bytes_max = wire.MESSAGE_BYTES_MAX
        if self._timer is not None:
            self._timer.cancel()
        self._beat()
        LOG.info("link up", peer=self.peer)
        self._peers.up(self)
