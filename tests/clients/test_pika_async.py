"""pika's event-driven adapters: one round of declare, confirm, consume and acknowledge on each of them."""

import asyncio
from typing import Any

import pika
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.adapters.select_connection import SelectConnection

from tests.clients.conftest import Broker
from tests.waiting import wait_until

MESSAGES = 200


class Round:
    """Publishes with confirms to a queue of its own and consumes it on the same channel, then closes."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.confirmed = 0
        self.closed: Exception | None = None
        self.channel: Any = None
        self.queue = ""

    def opened(self, connection: Any) -> None:
        connection.channel(on_open_callback=self.channel_opened)

    def channel_opened(self, channel: Any) -> None:
        self.channel = channel
        channel.queue_declare("", exclusive=True, callback=self.declared)

    def declared(self, reply: Any) -> None:
        self.queue = reply.method.queue
        self.channel.confirm_delivery(self.settled, callback=self.selected)

    def selected(self, _reply: Any) -> None:
        self.channel.basic_qos(prefetch_count=10)
        self.channel.basic_consume(self.queue, self.delivered)
        for number in range(MESSAGES):
            self.channel.basic_publish("", self.queue, str(number).encode())

    def settled(self, frame: Any) -> None:
        assert isinstance(frame.method, pika.spec.Basic.Ack)
        self.confirmed = frame.method.delivery_tag
        self.finish()

    def delivered(self, channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        self.bodies.append(body)
        channel.basic_ack(method.delivery_tag)
        self.finish()

    def finish(self) -> None:
        """Close when both have happened: all confirmed, all delivered."""
        if self.confirmed == len(self.bodies) == MESSAGES:
            self.channel.connection.close()


def check(done: Round) -> None:
    """Everything arrived in order and the connection was closed by us."""
    assert done.bodies == [str(number).encode() for number in range(MESSAGES)]
    assert isinstance(done.closed, pika.exceptions.ConnectionClosedByClient)


def test_the_select_adapter(broker: Broker) -> None:
    done = Round()

    def closed(connection: Any, reason: Exception) -> None:
        done.closed = reason
        connection.ioloop.stop()

    connection = SelectConnection(
        pika.URLParameters(broker.url),
        on_open_callback=done.opened,
        on_open_error_callback=closed,
        on_close_callback=closed,
    )
    connection.ioloop.start()
    connection.ioloop.close()
    check(done)


def test_the_asyncio_adapter(broker: Broker) -> None:
    async def run() -> None:
        ended = asyncio.Event()

        def closed(_connection: Any, reason: Exception) -> None:
            done.closed = reason
            ended.set()

        AsyncioConnection(
            pika.URLParameters(broker.url),
            on_open_callback=done.opened,
            on_open_error_callback=closed,
            on_close_callback=closed,
        )
        await ended.wait()

    done = Round()
    asyncio.run(run())
    check(done)


def stays_open(broker: Broker) -> bool:
    """Whether a connection with nothing but heartbeats stays: either side gives up on a silent other after two."""
    try:
        with pika.BlockingConnection(pika.URLParameters(f"{broker.url}?heartbeat=1")) as connection:
            channel = connection.channel()
            connection.process_data_events(3.0)
            return bool(channel.queue_declare("", exclusive=True).method.queue)
    except pika.exceptions.AMQPConnectionError:
        return False


def test_heartbeats_keep_an_idle_connection_alive(broker: Broker) -> None:
    wait_until(lambda: stays_open(broker))  # whoever stands still for two seconds has to try again
