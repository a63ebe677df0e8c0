"""What one client's connection has in one shard: a connection there, whose frames go both ways through a session.

A session is a way to the owner of the shard: a call in this process, or a link to another node. While there is none
(the shard changes its owner) the client is not heard, whatever it asks for: its order would else be lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from leveret.amqp.codec import decode, encode
from leveret.amqp.frames import BODY, FRAME_MAX_MAX, HEADER, METHOD, FrameReader, FrameWriter
from leveret.amqp.methods import (
    ChannelClose,
    ChannelCloseOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionUnblocked,
    Method,
)
from leveret.node.claims import (
    CLASS,
    DURABLE,
    MARK,
    NAMES,
    VERSION,
    Name,
    names_of,
    number_of,
    numbered,
    settlements,
)
from leveret.node.front.branch import Branch

if TYPE_CHECKING:
    from leveret.node.front.connection import FrontConnection

CHANNEL_MAX = 65_535
BODY_SIZE_AT = 4
UNSURE_MAX = 100_000  # the oldest ones are forgotten: if the shard loses them their messages come again
HAS_CONTENT = frozenset((b"\0\x3c\0\x32", b"\0\x3c\0\x3c", b"\0\x3c\0\x47"))  # basic.return, deliver and get-ok


class Session(Protocol):
    """A way to the owner of a shard."""

    def send(self, data: bytes) -> None:
        """Give it frames."""

    def pause(self, paused: bool) -> None:
        """Whether the client takes no more for now."""

    def close(self) -> None:
        """The client has gone."""


class Arriving:
    """A method whose content is still to come."""

    __slots__ = ("method", "missing_bytes", "parts")

    def __init__(self, method: bytes) -> None:
        """First comes the header, which says how long the body is."""
        self.method = method
        self.parts: list[bytes] = []
        self.missing_bytes = 0


class Backend:
    """One connection in one shard."""

    def __init__(self, connection: FrontConnection, home: str) -> None:
        """Nothing is sent before there is a session."""
        self.home = home
        self.branches: dict[int, Branch] = {}
        self.connection = connection
        self._session: Session | None = None
        self._closing: dict[int, int] = {}
        self.busy = False
        """Whether the shard hears nothing for now."""
        self._unsure: deque[tuple[int, int, Name]] = deque()  # the mark that says when it is durable, how, which
        self._last_mark = 0
        self._is_noted = False
        self._reset()

    def _reset(self) -> None:
        """Begin anew on both ends."""
        self._reader = FrameReader(FRAME_MAX_MAX, CHANNEL_MAX)
        self._reader.tune(FRAME_MAX_MAX, CHANNEL_MAX)
        self._writer = FrameWriter()
        self._arriving: dict[int, Arriving] = {}
        self._is_marked = False
        self._version = 0

    @property
    def attached(self) -> bool:
        """Whether there is a way to the shard."""
        return self._session is not None

    # Out

    def _note(self) -> None:
        """Something is to be sent: the connection needs to hear that once in a turn."""
        if not self._is_noted:
            self._is_noted = True
            self.connection.note(self)

    def method(self, number: int, payload: bytes) -> None:
        """Send a method."""
        self._writer.method(number, payload)
        self._note()

    def content(self, number: int, method: bytes, content: bytes, header_len: int) -> None:
        """Send a method with content."""
        self._writer.content(number, method, content, header_len)
        self._note()

    def flush(self) -> None:
        """Hand over what was said; not under a lock."""
        self._is_noted = False
        if self._session is not None and self._writer.pending_bytes:
            self._mark()
            self._session.send(self._preface() + self._writer.take())

    def _preface(self) -> bytes:
        """What the shard has to know before it hears the rest: queues that are newer than its definitions."""
        version = self.connection.node.version
        if version == self._version:
            return b""
        self._version = version
        writer = FrameWriter()
        writer.method(0, numbered(VERSION, version))
        return writer.take()

    # Settlements, which are lost with the shard until they are durable

    def settled(self, how: int, names: Iterable[Name]) -> None:
        """Deliveries are being settled."""
        for name in names:
            self._unsure.append((self._last_mark + 1, how, name))
        while len(self._unsure) > UNSURE_MAX:
            self._unsure.popleft()

    def _mark(self) -> None:
        """Ask when all of them are durable, one question at a time."""
        if self._unsure and not self._is_marked:
            self._is_marked = True
            self._last_mark += 1
            self._writer.method(0, numbered(MARK, self._last_mark))

    def _durable(self, mark: int) -> None:
        """Everything up to a mark is durable."""
        while self._unsure and self._unsure[0][0] <= mark:
            self._unsure.popleft()
        self._is_marked = False
        if self._unsure:
            self._mark()
            self._note()

    def _settle_again(self) -> None:
        """Tell the next owner what the one before it may not have written."""
        unsure = [(how, name) for _, how, name in self._unsure]
        self._unsure = deque((self._last_mark + 1, *each) for each in unsure)
        for payload in settlements(unsure):
            self._writer.method(0, payload)

    # In

    def receive(self, data: bytes) -> None:
        """Frames came from the shard."""
        self._reader.feed(data)
        while (frame := self._reader.next_frame()) is not None:
            kind, number, payload = frame
            if kind == METHOD:
                self._method(number, payload)
            elif kind in (HEADER, BODY) and number in self._arriving:
                self._part(number, kind, payload)

    def _method(self, number: int, payload: bytes) -> None:
        if payload[:4] in HAS_CONTENT:
            self._arriving[number] = Arriving(payload)
        elif payload.startswith(CLASS):
            self._told(number, payload)
        elif number == 0:
            method = decode(payload)
            if isinstance(method, ConnectionClose):
                self.connection.refused(method)
            elif isinstance(method, ConnectionBlocked | ConnectionUnblocked):
                self.connection.blocked_by(self, method)
        else:
            self._heard(number, decode(payload))

    def _told(self, number: int, payload: bytes) -> None:
        """The shard says something that is not for the client."""
        if payload.startswith(NAMES) and number in self.branches and number not in self._closing:
            self.branches[number].names.update(names_of(payload))
        elif payload.startswith(DURABLE):
            self._durable(number_of(payload))

    def _part(self, number: int, kind: int, payload: bytes) -> None:
        """A header or a piece of a body; the last one makes it whole."""
        arriving = self._arriving[number]
        arriving.parts.append(payload)
        if kind == HEADER:
            arriving.missing_bytes = int.from_bytes(payload[BODY_SIZE_AT : BODY_SIZE_AT + 8], "big")
        else:
            arriving.missing_bytes -= len(payload)
        if not arriving.missing_bytes:
            del self._arriving[number]
            branch = self.branches.get(number)
            if branch is not None and number not in self._closing:
                parts = arriving.parts
                self.connection.came(branch, arriving.method, b"".join(parts), len(parts[0]))

    def _heard(self, number: int, method: Method) -> None:
        """A method without content came on a channel."""
        if isinstance(method, ChannelClose):
            self._writer.method(number, encode(ChannelCloseOk()))
            self._note()
        if number in self._closing:
            # If both ends close a channel at once, the shard answers nevertheless.
            if isinstance(method, ChannelCloseOk):
                self._closed(number)
            return
        branch = self.branches.get(number)
        if branch is not None:
            self.connection.heard(branch, method)

    # Channels

    def branch(self, number: int, prefetch: int) -> Branch:
        """The channel of that number, opened if need be."""
        found = self.branches.get(number)
        if found is None:
            found = self.branches[number] = Branch(self, number, prefetch)
        return found

    def close(self, branch: Branch) -> None:
        """The client is done with a channel; what still comes on it is for nobody."""
        self.branches.pop(branch.number, None)
        self._arriving.pop(branch.number, None)
        self._closing[branch.number] = self._closing.get(branch.number, 0) + 1
        branch.close()

    def forget(self, branch: Branch) -> None:
        """The shard has closed a channel."""
        self.branches.pop(branch.number, None)
        self._arriving.pop(branch.number, None)

    def _closed(self, number: int) -> None:
        self._closing[number] -= 1
        if not self._closing[number]:
            del self._closing[number]
        self.connection.branch_closed()

    @property
    def is_closing(self) -> bool:
        """Whether a channel is not closed yet."""
        return bool(self._closing)

    # Sessions: what they tell, not under a lock

    def received(self, data: bytes) -> None:
        """Frames came from the shard."""
        self.connection.receive_from(self, data)

    def held(self, held: bool) -> None:
        """The shard hears nothing more for a while, or again."""
        self.busy = held
        self.connection.held_by(self)

    def lost(self, reason: str) -> None:
        """There is no way to the shard any more."""
        self.busy = False
        self.connection.lost_backend(self)

    def attach(self, session: Session) -> None:
        """There is a way to the shard: what was said meanwhile is sent."""
        self._session = session
        self._note()

    def detach(self) -> None:
        """The shard has lost its owner, and with it all that it knew of this client: tell the next one."""
        self._session = None
        self._closing.clear()
        self._reset()
        self._settle_again()
        for branch in self.branches.values():
            branch.reopen(self.connection.held(branch))

    def pause(self, paused: bool) -> None:
        """Whether the client takes no more for now."""
        if self._session is not None:
            self._session.pause(paused)

    def end(self) -> None:
        """The client has gone."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
