"""A client of a proxy in a shard: a connection without a socket, let in by the node that the client came to.

To a proxy on the same node it is the way to the shard itself: the proxy enters it, and gets frames back. To that of
another node a link carries frames both ways: see leveret.cluster.proxy.sessions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from leveret.cluster.proxy import claims
from leveret.core.claims import gone
from leveret.core.errors import BrokerClosed, InvalidArgument, JournalFailed
from leveret.core.exchanges import Exchange
from leveret.core.held import Held
from leveret.core.queue import Queue
from leveret.core.switch import Switch
from leveret.core.topology import TRACE_EXCHANGE
from leveret.protocols.amqp.channel import HANDLERS, Channel, Handlers
from leveret.protocols.amqp.connection import AmqpConnection, AmqpPeer
from leveret.protocols.amqp.state import Hold
from leveret.protocols.amqp.traffic import adopt, take_up
from leveret.security.authorisation import Role
from leveret.wire.frames import METHOD
from leveret.wire.methods import QueueDeclare, QueueDeclareOk

if TYPE_CHECKING:
    from leveret.cluster.proxy.connection import ProxyCaller
    from leveret.cluster.proxy.sessions import RemoteListener
    from leveret.cluster.proxy.shard_connection import ShardConnection
    from leveret.cluster.shards.shard import Shard
    from leveret.core.broker import Broker
    from leveret.protocols.amqp.subscriber import Subscriber


EXPIRED_MS = 60_000  # after the end of a token, in which the proxy of a client says what becomes of it


def declare(channel: ProxiedChannel, method: QueueDeclare) -> None:
    """Say what is in a queue, as a proxy asks; a queue without a name says that it has just gone."""
    if method.passive and method.queue not in channel.virtual_host.queues:
        channel.say(QueueDeclareOk("", 0, 0))
    else:
        HANDLERS[QueueDeclare](channel, method)


PROXIED_HANDLERS: Handlers = {**HANDLERS, QueueDeclare: declare}


class ProxiedChannel(Channel):
    """A channel whose deliveries may be older than the owner of the shard."""

    handlers: Handlers = PROXIED_HANDLERS

    def __init__(self, connection: ProxiedConnection, number: int) -> None:
        super().__init__(connection, number)
        self.named = 0
        """The last delivery of which the proxy knows what it is."""
        self._claimed: dict[str, list[int]] = {}  # by consumer tag
        self._exclusive_consumers = connection.shard.exclusive_consumers

    def claim(self, payload: bytes, shard: Shard) -> None:
        """Hold what the client holds, under the same tags; what is not there any more can be settled without effect."""
        name, consumer, delivered = claims.claim_of(payload)
        queue = self.virtual_host.queues.get(name)
        for each in delivered:
            if each.tag <= self.last_tag:
                raise InvalidArgument(f"delivery {each.tag} is claimed after {self.last_tag}: is it another version?")
            held = None if queue is None else shard.orphaned.claim(queue, each)
            take_up(self, each.tag, held or gone())
            self._claimed.setdefault(consumer, []).append(each.tag)
        self.named = self.last_tag

    def authorize(self, verb: str, names: Mapping[Role, str], topic_key: str | None = None) -> None:
        """Refuse what the user may not do; copies for the firehose are the proxy's, not the user's."""
        if names.get("exchange") != TRACE_EXCHANGE or verb != "basic.publish":
            super().authorize(verb, names, topic_key)

    def check_exchange(self, name: str) -> Exchange:
        """The exchange of that name; the proxy refuses what clients publish to that of the firehose."""
        return self.virtual_host.exchange(name) if name == TRACE_EXCHANGE else super().check_exchange(name)

    def add_consumer(self, subscriber: Subscriber, source: Queue) -> None:
        """Start to push; what it holds already counts."""
        self._exclusive_consumers.check(source, subscriber)
        super().add_consumer(subscriber, source)
        adopt(self, subscriber, self._claimed.pop(subscriber.tag, []))
        self._exclusive_consumers.begun(source, subscriber)

    def remove_consumer(self, tag: str) -> None:
        subscriber = self.subscribers.get(tag)
        super().remove_consumer(tag)
        if subscriber is not None:
            self._exclusive_consumers.look(subscriber.queue)

    def subscriber_cancelled(self, subscriber: Subscriber) -> None:
        super().subscriber_cancelled(subscriber)
        queue: Any = subscriber.queue
        self._exclusive_consumers.look(queue)


class ProxiedConnection(AmqpConnection):
    """The connection of a proxied client; it also hears what leveret.cluster.proxy.claims has."""

    def __init__(self, shard: Shard, peer: AmqpPeer) -> None:
        super().__init__(shard.hub, peer)
        self.shard = shard
        self._takes = True  # whether the client does
        self._unsafe = 0  # how much of what it is to be told may be forgotten yet
        self._last_names: list[tuple[int, bytes]] = []

    def check_access(self) -> None:
        """Cancel refused consumers; the proxy closes the connection if that is to end."""
        for channel in tuple(self.channels.values()):
            channel.check_consumers()

    def has_expired(self, now_ms: int) -> bool:
        """Whether the token has expired some time ago: until then it is the proxy that closes or renews it."""
        return super().has_expired(now_ms - EXPIRED_MS)

    def check_channel(self) -> None:
        """Refuse nothing: the proxy has counted, and a client that comes back may be here twice for a moment."""

    @property
    def firehose(self) -> Switch:
        """Off: the proxy traces what clients publish and get."""
        return Switch()

    def new_channel(self, number: int) -> ProxiedChannel:
        return ProxiedChannel(self, number)

    def on_method(self, number: int, payload: bytes) -> None:
        if payload.startswith(claims.CLAIM):
            self.channels[number].claim(payload, self.shard)
        else:
            super().on_method(number, payload)

    def on_frame(self, kind: int, number: int, payload: bytes) -> None:
        """A frame came on a channel that is not open."""
        if number or kind != METHOD or not payload.startswith(claims.CLASS):
            super().on_frame(kind, number, payload)
        elif payload.startswith(claims.SETTLE):
            self._settle(payload)
        elif payload.startswith(claims.IDENTITY):
            self.renew(claims.identity_of(payload))
        elif payload.startswith(claims.VERSION):
            if not self.shard.knows(claims.number_of(payload), self._learnt):
                self.hold(Hold.SHARD)
        elif payload.startswith(claims.MARK):
            durable = claims.numbered(claims.DURABLE, claims.number_of(payload))
            self.hub.when_durable(partial(self._tell, durable), lazily=not claims.is_urgent(payload))

    def _learnt(self, known: bool) -> None:
        """This node knows the version that it was asked for, or cannot get to know it; not under a lock."""
        if known:
            with suppress(JournalFailed, BrokerClosed):  # the shard has moved: its next owner is asked again
                self.hub.finish(self, partial(self.let_go, Hold.SHARD))
        else:
            self.abort()

    def _tell(self, payload: bytes) -> None:
        self.outlet.method(0, payload)
        self.outlet.note()

    def _settle(self, payload: bytes) -> None:
        """Settle what was settled before another owner had that on its disks; twice does no harm."""
        how, name, delivered = claims.settlement_of(payload)
        queue = None if self.virtual_host is None else self.virtual_host.queues.get(name)
        if queue is not None:
            for each in delivered:
                self.shard.orphaned.settle(queue, each, how)

    def hold_back(self) -> None:
        """Tell the client nothing more until all that was done so far is on the disks: it may count on it then."""
        self._unsafe += 1
        self.writable(self._takes)
        self.hub.when_durable(self._is_safe)

    def _is_safe(self) -> None:
        self._unsafe -= 1
        if not self._released:
            self.writable(self._takes)

    def writable(self, writable: bool) -> None:
        self._takes = writable
        super().writable(writable and not self._unsafe)

    def names(self) -> list[tuple[int, bytes]]:
        """Which messages the deliveries are that the proxy does not know of: NAMES, with the numbers of channels."""
        found, self._last_names = self._last_names, []
        for channel in self.channels.values():
            last = channel.last_tag
            if last > channel.named:
                for queue, records in channel.unacked.identities(last, channel.named):
                    found.append((channel.number, claims.names(queue, records)))
                channel.named = last
        return found

    def release(self) -> None:
        """Give back what the channels hold; the proxy may still ask which messages those are."""
        self._last_names = self.names()
        super().release()

    def take_leases(self) -> Iterator[tuple[Held, int]]:
        """What the channels hold, which they do not any more."""
        self._last_names = self.names()
        for channel in self.channels.values():
            for _, lease, held in channel.unacked.take_all():
                if held.lease == lease and lease:
                    yield held, lease

    def leave(self) -> None:
        """Have nothing any more and give nothing back: the next owner of the shard knows what was delivered."""
        self.outlet.paused = True
        self._released = True
        self.channels.clear()


class ProxiedClient:
    """One client in one shard; the hub of the shard takes it for a socket."""

    def __init__(self, shard: Shard, caller: ProxyCaller, listener: ShardConnection | RemoteListener) -> None:
        self._shard = shard
        self._hub = shard.hub
        self._listener = listener
        self._held = False
        self._gone = False
        self._turn: AbstractContextManager[Broker] | None = None
        self.connection = ProxiedConnection(shard, caller.peer)
        self.connection.socket = self
        self.connection.local, self.connection.entrance = caller.local, caller.node
        try:
            with self._hub.locked():
                self.connection.admit(caller.identity, caller.vhost, caller.client_properties)
        except BaseException:
            self._hub.connections.discard(self.connection)
            raise

    # For the client

    def send(self, data: bytes) -> None:
        """Frames of the client; a shard that cannot write any more takes none."""
        try:
            self._hub.receive(self.connection, data)
        except (JournalFailed, BrokerClosed) as error:
            self.fail(error)

    def pause(self, paused: bool) -> None:
        self.connection.writable(not paused)

    # For the client, if it has come to this node

    def enter(self) -> bool:
        """Take the lock of the shard, unless it does not listen now, or something that it was sent waits there."""
        connection = self.connection
        if self._gone or connection.waiting or connection.finished or connection.reader.buffered_bytes:
            return False
        turn = self._hub.locked()
        try:
            turn.__enter__()
        except (JournalFailed, BrokerClosed):
            return False  # the shard is sent frames, and answers that it cannot write
        self._turn = turn
        return True

    def leave(self) -> None:
        """Let go of the lock; publishes are confirmed when they are durable."""
        turn, self._turn = self._turn, None
        assert turn is not None, "it was entered"
        try:
            self._hub.end_turn(self.connection)
        finally:
            turn.__exit__(None, None, None)

    def close(self) -> None:
        self._gone = True
        with suppress(JournalFailed, BrokerClosed):  # it has nothing to give back then
            self._hub.lost(self.connection)

    def cut_off(self) -> None:
        """The node of the client cannot be reached any more: what the client holds is kept for a while."""
        with suppress(JournalFailed, BrokerClosed), self._hub.locked():
            self._shard.orphaned.keep(self.connection.take_leases())
            self._shard.exclusive_consumers.keep(self.connection)
        self.close()

    def fail(self, error: Exception) -> None:
        """The shard cannot write any more."""
        if not self._gone:
            self._gone = True
            self._listener.lost(str(error))

    # For the shard

    def flush(self) -> None:
        """Hand over what the shard says, and before it which messages there are in it."""
        if self._gone or not self._shard.may_tell(self):
            return
        self._listener.written(self.connection)
        data = self.connection.take_output()
        if data:
            self._listener.received(data)
        if self.connection.finished:
            self.abort()
        elif self._held is self.connection.wants_input:
            self._held = not self._held
            self._listener.held(self._held)

    def abort(self) -> None:
        """The shard wants to hear no more."""
        if not self._gone:
            self.close()
            self._listener.lost("the shard has closed the connection")
