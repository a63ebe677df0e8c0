"""What one client's connection has in one shard: a connection there, whose frames go both ways through a session.

A session is a way to the owner of the shard: a call in this process, or a link to another node. While there is none
(the shard changes its owner) what the client says to the shard waits here, in its order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from leveret.cluster.proxy import claims
from leveret.cluster.proxy.proxied import ProxiedClient
from leveret.cluster.proxy.relay import ShardConnectionBase
from leveret.cluster.proxy.shard_channel import ShardChannel
from leveret.core.errors import BrokerClosed, JournalFailed
from leveret.wire import methods
from leveret.wire.codec import decode, encode
from leveret.wire.frames import BODY, HEADER, METHOD, FrameWriter
from leveret.wire.methods import Method

if TYPE_CHECKING:
    from leveret.cluster.proxy.connection import ProxyConnection
    from leveret.cluster.proxy.sessions import RemoteSession
    from leveret.protocols.amqp.session import FrameSession
    from leveret.security.identity import Identity

BODY_SIZE_AT = 4
HAS_CONTENT = frozenset((b"\0\x3c\0\x32", b"\0\x3c\0\x3c", b"\0\x3c\0\x47"))  # basic.return, deliver and get-ok


@dataclass(slots=True)
class Arriving:
    """A method whose content is still to come."""

    method: bytes
    parts: list[bytes] = field(default_factory=list)
    missing_bytes: int = 0


class ShardConnection(ShardConnectionBase):
    """One connection in one shard; its frames are taken apart in relay.pyx."""

    def __init__(self, connection: ProxyConnection, shard_id: str) -> None:
        super().__init__(connection)
        self.shard_id = shard_id
        self._session: ProxiedClient | RemoteSession | None = None
        self._local: ProxiedClient | None = None
        """The session, if the shard is on this node: it can be entered, and what is done then needs no frames."""
        self.busy = False
        """Whether the shard hears nothing for now."""
        self.durable_mark = 0
        """Everything that was settled before this mark is durable."""
        self._reset()

    def _reset(self) -> None:
        """Begin anew on both ends."""
        self.begin()
        self._retold_bytes = 0
        self._arriving: dict[int, Arriving] = {}
        self._is_marked = False
        self._version = 0

    @property
    def attached(self) -> bool:
        """Whether there is a way to the shard."""
        return self._session is not None

    @property
    def hears(self) -> bool:
        """Whether the shard can be told something now."""
        return self._session is not None and not self.busy

    @property
    def unsent_bytes(self) -> int:
        """How much of what the client has said waits until it can be."""
        return 0 if self.hears else self.writer.pending_bytes - self._retold_bytes

    # Out

    def flush(self, *, urgent: bool = False) -> None:
        """Hand over what was said; not under a lock. `urgent`: let what was settled be durable soon."""
        self.noted = False
        if urgent and self.unsure:
            self._ask_mark(urgent=True)
        if self._session is not None and (urgent or not self.busy) and self.writer.pending_bytes:
            self._mark()
            self._retold_bytes = 0
            self._session.send(self._preface() + self.writer.take())

    def _preface(self) -> bytes:
        """What the shard has to know before it hears the rest: queues that are newer than its definitions."""
        version = self.connection.node.version
        if version == self._version:
            return b""
        self._version = version
        writer = FrameWriter()
        writer.method(0, claims.numbered(claims.VERSION, version))
        return writer.take()

    def enter(self) -> bool:
        """Whether the shard is on this node and has been entered; it is not while what it was told comes as frames."""
        connection, local = self.connection, self._local
        if local is None or self.busy or self._version != connection.node.version or not connection.is_draining:
            return False
        self.entered = local.enter()
        if self.entered:
            connection.entered.append(self)
        return self.entered

    def leave(self) -> None:
        """End the turn in a shard of this node."""
        local, self.entered = self._local, False
        assert local is not None, "it was entered"
        try:
            self._mark_there(local)
            local.leave()
        except (JournalFailed, BrokerClosed) as error:
            self.connection.node.soon(partial(local.fail, error))

    # Settlements, which are lost with the shard until they are durable

    def _mark(self) -> None:
        """Ask when all of them are durable, one question at a time."""
        if self.unsure and not self._is_marked:
            self._ask_mark(urgent=False)

    def _ask_mark(self, *, urgent: bool) -> None:
        self._is_marked = True
        self.last_mark += 1
        self.writer.method(0, claims.mark(self.last_mark, urgent=urgent))

    def _mark_there(self, local: ProxiedClient) -> None:
        """The same in a shard of this node, with its lock."""
        if self.unsure and not self._is_marked:
            self._is_marked = True
            self.last_mark += 1
            local.connection.hub.when_durable(partial(self._durable_there, local, self.last_mark), lazily=True)

    def _durable_there(self, local: ProxiedClient, number: int) -> None:
        if local is self._local:
            self._forget(number)
            self._mark_there(local)

    def renew(self, renewed: Identity) -> None:
        """Let the shard know what the client may do from now on."""
        self.writer.method(0, claims.identity(renewed))
        self.note()

    def hurry(self) -> int:
        """Let what was settled be durable soon; gives the mark that will say so, 0: it is."""
        if not self.unsure:
            return 0
        self._ask_mark(urgent=True)
        self.note()
        return self.last_mark

    def _durable(self, number: int) -> None:
        """Everything up to a mark is durable."""
        self._forget(number)
        if self.unsure:
            self._mark()
            self.note()
        self.connection.settled()

    def _forget(self, number: int) -> None:
        self.unsure.forget(number)
        self.durable_mark = max(number, self.durable_mark)
        self._is_marked = False

    def _settle_again(self) -> None:
        """Tell the next owner what the one before it may not have written."""
        for payload in claims.settlements(self.unsure.renumber(self.last_mark + 1)):
            self.writer.method(0, payload)

    # In

    def on_frame(self, kind: int, number: int, payload: bytes) -> None:
        """A frame came from the shard that is not part of a whole delivery."""
        if kind == METHOD:
            self._method(number, payload)
        elif kind in (HEADER, BODY) and number in self._arriving:
            self._part(number, kind, payload)

    def _method(self, number: int, payload: bytes) -> None:
        if payload[:4] in HAS_CONTENT:
            self._arriving[number] = Arriving(payload)
        elif payload.startswith(claims.CLASS):
            self._told(number, payload)
        elif number == 0:
            method = decode(payload)
            if isinstance(method, methods.ConnectionClose):
                self.connection.refused(method)
            elif isinstance(method, methods.ConnectionBlocked | methods.ConnectionUnblocked):
                self.connection.blocked_by(self, method)
        else:
            self._heard(number, decode(payload))

    def _told(self, number: int, payload: bytes) -> None:
        """The shard says something that is not for the client."""
        if payload.startswith(claims.NAMES) and number in self.shard_channels and number not in self.closing:
            self.shard_channels[number].names.learn(payload)
        elif payload.startswith(claims.DURABLE):
            self._durable(claims.number_of(payload))

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
            shard_channel = self.shard_channels.get(number)
            if shard_channel is not None and number not in self.closing:
                parts = arriving.parts
                channel = self.connection.channels[number]
                channel.came(shard_channel, arriving.method, b"".join(parts), len(parts[0]))

    def _heard(self, number: int, method: Method) -> None:
        if isinstance(method, methods.ChannelClose):
            self.writer.method(number, encode(methods.ChannelCloseOk()))
            self.note()
        if number in self.closing:
            # If both ends close a channel at once, the shard answers nevertheless.
            if isinstance(method, methods.ChannelCloseOk):
                self._closed(number)
            return
        shard_channel = self.shard_channels.get(number)
        if shard_channel is not None:
            self.connection.channels[number].heard(shard_channel, method)

    # Channels

    def shard_channel(self, number: int, prefetch: int) -> ShardChannel:
        """The channel of that number, opened if need be."""
        found = self.shard_channels.get(number)
        if found is None:
            found = self.shard_channels[number] = ShardChannel(self, number, prefetch)
        return found

    def close(self, shard_channel: ShardChannel) -> None:
        """The client is done with a channel; what still comes on it is dropped."""
        self.forget(shard_channel)
        self.closing[shard_channel.number] = self.closing.get(shard_channel.number, 0) + 1
        shard_channel.say(methods.ChannelClose(200, "closed", 0, 0))

    def forget(self, shard_channel: ShardChannel) -> None:
        self.shard_channels.pop(shard_channel.number, None)
        self._arriving.pop(shard_channel.number, None)

    def _closed(self, number: int) -> None:
        self.closing[number] -= 1
        if not self.closing[number]:
            del self.closing[number]
        self.connection.shard_channel_closed()

    # Sessions: what they tell, not under a lock

    def received(self, data: bytes) -> None:
        self.connection.later(partial(self.receive, data))

    def written(self, shard: FrameSession) -> None:
        """A shard of this node has written frames for the client, which can be taken from its outlet."""
        self.connection.later(partial(self.receive_from, shard))

    def held(self, held: bool) -> None:
        self.busy = held
        if not held:
            self.connection.later(self._heard_again)

    def _heard_again(self) -> None:
        self.note()
        self.connection.look_again()

    def lost(self, reason: str) -> None:
        """There is no way to the shard any more."""
        self.busy = False
        self.connection.later(partial(self.connection.lost_shard, self))

    def forsake(self, reason: str) -> None:
        """This node serves the shard no more; a session that stays would get what is meant for the next owner."""
        self.learn_names()
        self.end()
        self.lost(reason)

    def turned_away(self) -> None:
        """There was no way to the shard: nothing was said to anybody, and all of it waits for its owner."""
        self.connection.later(self._wait)

    def attach(self, session: ProxiedClient | RemoteSession) -> None:
        """There is a way to the shard: what was said meanwhile is sent."""
        self._session, self._local = session, session if isinstance(session, ProxiedClient) else None
        self.direct = None if self._local is None else self._local.connection
        self.note()

    def _wait(self) -> None:
        """The shard has another owner than was believed, who is looked for."""
        self._forget_session()
        self.busy = False

    def _forget_session(self) -> None:
        self._session = self._local = self.direct = None

    def learn_names(self) -> None:
        """Learn which messages the client holds, as the next owner is asked for them; other nodes say that at once."""
        for number, payload in () if self._local is None else self._local.connection.names():
            if number in self.shard_channels:
                self.shard_channels[number].names.learn(payload)

    def detach(self) -> None:
        """The shard has lost its owner, and with it all that it knew of this client: tell the next one."""
        self._forget_session()
        self.closing.clear()
        self._reset()
        self._settle_again()
        for number, shard_channel in self.shard_channels.items():
            shard_channel.reopen(self.connection.channels[number].tags.held(shard_channel))
        self._retold_bytes = self.writer.pending_bytes

    def pause(self, paused: bool) -> None:
        if self._session is not None:
            self._session.pause(paused)

    def end(self) -> None:
        session = self._session
        self._forget_session()
        if session is not None:
            session.close()
