"""A client in memory: methods in, methods out, through a real Connection and a broker without files."""

from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

import leveret
from leveret.core.properties import Properties, content, decode_header
from leveret.protocols.amqp.connection import AmqpConnection, AmqpPeer
from leveret.protocols.amqp.hub import Hub
from leveret.protocols.amqp.limits import AmqpLimits
from leveret.security.access import Access
from leveret.security.passwords import Cost
from leveret.wire.codec import decode, encode
from leveret.wire.frames import BODY, HEADER, HEARTBEAT, METHOD, PROTOCOL_HEADER, FrameReader, FrameWriter
from leveret.wire.methods import (
    BasicPublish,
    ChannelOpen,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    Method,
    QueueDeclare,
)
from tests.waiting import PATIENCE_S

CAPABILITIES = {
    "authentication_failure_close": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "basic.nack": True,
}
CHEAP = Cost(n=2, r=1, p=1)
LOCAL = AmqpPeer("127.0.0.1", 50_000)
T = TypeVar("T")
M = TypeVar("M", bound=Method)


class Received(NamedTuple):
    """A method with its channel and, if it has some, its content."""

    channel: int
    method: Any
    properties: Properties | None = None
    body: bytes = b""


class World:
    """A hub on a broker in memory whose clock stands still until it is moved."""

    def __init__(self, limits: AmqpLimits | None = None, path: str | None = None, **options: Any) -> None:
        self.clock = leveret.ManualClock()
        self.broker = self.open(path, **options)
        self.jobs: deque[Callable[[], None]] = deque()
        with self.broker.runtime as core:
            self.access = Access(core, cost=CHEAP)
        self.frames: SimpleQueue[int] = SimpleQueue()
        self.broker.runtime.on_durable(self.frames.put)
        self.hub = Hub(self.broker.runtime, lambda: None, self.access, self._later, limits or AmqpLimits())
        self.core = self.hub.core

    def open(self, path: str | None, **options: Any) -> leveret.Broker:
        """The broker behind the hub."""
        return leveret.open(path, clock=self.clock, **options)

    def _later(self, job: Callable[[], T], done: Callable[[T], None]) -> None:
        self.jobs.append(lambda: done(job()))

    def connect(self, peer: AmqpPeer) -> AmqpConnection:
        """The server's end of a connection."""
        return AmqpConnection(self.hub, peer)

    def work(self) -> None:
        """Do what was put off to other threads, and wait for the disk."""
        while self.jobs or self.hub.waiting.count:
            if self.jobs:
                self.jobs.popleft()()
            else:
                self.hub.durable(self.frames.get(timeout=PATIENCE_S))

    def pass_ms(self, ms: int) -> None:
        """Let time pass, and everybody notice it."""
        self.clock.advance(ms / 1000)
        self.hub.sweep()

    def close(self) -> None:
        for connection in list(self.hub.connections):
            self.hub.lost(connection)
        self.broker.close()

    def client(self, **options: Any) -> "Client":
        """A client that has logged in and opened channel 1."""
        client = self.stranger(options.pop("peer", LOCAL))
        client.log_in(**options)
        client.open_channel(1)
        return client

    def stranger(self, peer: AmqpPeer = LOCAL) -> "Client":
        """A client that has said nothing."""
        return Client(self, peer)


class Client:
    """The other end of a Connection."""

    def __init__(self, world: World, peer: AmqpPeer) -> None:
        self.world = world
        self.connection = world.connect(peer)
        self.reader = FrameReader(1_048_576, 65_535)
        self.writer = FrameWriter()
        self.heartbeats = 0
        self._pending: deque[Received] = deque()

    # Bytes

    def send_bytes(self, data: bytes) -> None:
        self.world.hub.receive(self.connection, data)
        self.world.work()

    def send(self, method: Method, channel: int = 1) -> None:
        self.writer.method(channel, encode(method))
        self.send_bytes(self.writer.take())

    def send_content(self, method: Method, properties: Properties | None, body: bytes, channel: int = 1) -> None:
        self.writer.content(channel, encode(method), *content(properties, body))
        self.send_bytes(self.writer.take())

    def received(self) -> list[Received]:
        """Everything that came since the last time."""
        self._read()
        came, self._pending = list(self._pending), deque()
        return came

    def _read(self) -> None:
        while output := self.connection.take_output():
            self.reader.feed(output)
        while (frame := self.reader.next_frame()) is not None:
            kind, channel, payload = frame
            if kind == HEARTBEAT:
                self.heartbeats += 1
            elif kind == METHOD:
                self._pending.append(Received(channel, decode(payload)))
            elif kind == HEADER:
                self._pending[-1] = self._pending[-1]._replace(properties=decode_header(payload))
            elif kind == BODY:
                self._pending[-1] = self._pending[-1]._replace(body=self._pending[-1].body + payload)

    # Methods

    def next(self, kind: type[M], channel: int | None = None) -> M:
        """The next method, which must be of this kind."""
        found: M = self.next_content(kind, channel).method
        return found

    def next_content(self, kind: type[M], channel: int | None = None) -> Received:
        self._read()
        assert self._pending, f"nothing came, expected {kind.__name__}"
        came = self._pending.popleft()
        assert isinstance(came.method, kind), f"expected {kind.__name__}, got {came}"
        assert channel is None or came.channel == channel
        return came

    def nothing(self) -> bool:
        """Whether nothing more came."""
        self._read()
        return not self._pending

    def call(self, method: Method, answer: type[M], channel: int = 1) -> M:
        """Send a method and take its answer."""
        self.send(method, channel)
        return self.next(answer, channel)

    # Conversations

    def log_in(
        self,
        user: str = "guest",
        password: str = "guest",
        vhost: str = "/",
        capabilities: dict[str, bool] | None = None,
        heartbeat: int = 0,
        frame_max: int = 131_072,
        name: str | None = None,
    ) -> None:
        self.start(user, password, capabilities, name)
        self.tune(heartbeat, frame_max)
        self.send(ConnectionOpen(vhost), 0)
        self.received()

    def start(
        self,
        user: str = "guest",
        password: str = "guest",
        capabilities: dict[str, bool] | None = None,
        name: str | None = None,
    ) -> None:
        self.send_bytes(PROTOCOL_HEADER)
        told: dict[str, Any] = {"capabilities": CAPABILITIES if capabilities is None else capabilities}
        if name is not None:
            told["connection_name"] = name
        response = f"\0{user}\0{password}".encode()
        self.send(ConnectionStartOk(told, "PLAIN", response, "en_US"), 0)

    def tune(self, heartbeat: int = 0, frame_max: int = 131_072, channel_max: int = 2_047) -> None:
        self.reader.tune(1_048_576, 65_535)
        self.writer.tune(max(frame_max, 4_096))
        self.send(ConnectionTuneOk(channel_max, frame_max, heartbeat), 0)

    def open_channel(self, number: int) -> None:
        self.send(ChannelOpen(), number)
        self.received()

    def queue(self, name: str = "q", channel: int = 1, **options: Any) -> str:
        """Declare a queue."""
        self.send(QueueDeclare(name, **options), channel)
        answer = self.received()[-1].method
        assert hasattr(answer, "queue"), answer
        return str(answer.queue)

    def publish(
        self, key: str = "q", body: bytes = b"x", exchange: str = "", channel: int = 1, mandatory: bool = False,
        **properties: Any,
    ) -> None:  # fmt: skip
        given = Properties(**properties) if properties else None
        self.send_content(BasicPublish(exchange, key, mandatory), given, body, channel)
