"""The brokers that raw clients talk to: one in memory, one in a process of its own, and RabbitMQ if it is named."""

from typing import Protocol

from leveret.protocols.amqp.connection import AmqpPeer
from leveret.wire import methods as m
from tests.protocols.amqp.client import LOCAL, World
from tests.protocols.amqp.wire import Client, SocketLink

# Everything that a table of steps may leave behind.
QUEUES = ("q", "ignored")
EXCHANGES = ("x",)
SILENCE_S = 30  # of the time in the world


class Target(Protocol):
    """A broker."""

    older: bool

    def connect(self) -> Client:
        """A client that has said nothing yet."""

    def clear(self) -> None:
        """Remove what a test has left."""


class SocketTarget:
    """A broker behind a port."""

    def __init__(self, host: str, port: int, *, older: bool = False) -> None:
        self.host = host
        self.port = port
        self.older = older

    def connect(self) -> Client:
        return Client(SocketLink(self.host, self.port))

    def clear(self) -> None:
        with self.connect().open() as client:
            for queue in QUEUES:
                client.call(1, m.QueueDelete(queue))
            for exchange in EXCHANGES:
                client.call(1, m.ExchangeDelete(exchange))
            client.call(0, m.ConnectionClose(200, "done"))


class MemoryLink:
    """A connection without a socket; while the server says nothing, time passes."""

    def __init__(self, world: World, peer: AmqpPeer) -> None:
        self.world = world
        self.connection = world.connect(peer)

    def send(self, data: bytes) -> None:
        self.world.hub.receive(self.connection, data)
        self.world.work()

    def receive(self) -> bytes:
        for _ in range(SILENCE_S):
            said = self.connection.take_output()
            if said or self.connection.finished:
                return said
            self.world.pass_ms(1_000)
        raise TimeoutError("the server says nothing")

    def close(self) -> None:
        self.world.hub.lost(self.connection)


class MemoryTarget:
    """A broker in memory, for one test."""

    older = False

    def __init__(self, world: World) -> None:
        self.world = world

    def connect(self, peer: AmqpPeer = LOCAL) -> Client:
        return Client(MemoryLink(self.world, peer))

    def clear(self) -> None:
        """It goes with its world."""
