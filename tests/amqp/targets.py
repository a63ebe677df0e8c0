"""The brokers that raw clients talk to: one in memory, one in a process of its own, and RabbitMQ if it is named."""

from typing import Protocol

from leveret.amqp import methods as m
from tests.amqp.wire import Client, SocketLink

# Everything that a table of steps may leave behind.
QUEUES = ("q", "ignored")
EXCHANGES = ("x",)


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
