"""aio-pika: its robust connection, confirms, exchanges of every type and its RPC pattern."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aio_pika
import pytest
from aio_pika import DeliveryMode, ExchangeType, Message
from aio_pika.abc import AbstractRobustChannel, AbstractRobustConnection
from aio_pika.exceptions import ChannelPreconditionFailed, DeliveryError, PublishError
from aio_pika.patterns import RPC, Master

from tests.clients.conftest import Broker, Unique
from tests.waiting import PATIENCE_S

Scene = Callable[[AbstractRobustConnection, AbstractRobustChannel], Awaitable[None]]


def play(broker: Broker, scene: Scene) -> None:
    """Run a test's scene with a connection and a channel, in a loop of its own."""

    async def run() -> None:
        robust = await aio_pika.connect_robust(broker.url, reconnect_interval=0.05)
        async with robust as connection, connection.channel() as channel:
            await asyncio.wait_for(scene(connection, channel), PATIENCE_S)

    asyncio.run(run())


def test_a_message_is_confirmed_consumed_and_acknowledged(broker: Broker) -> None:
    async def scene(_connection: AbstractRobustConnection, channel: AbstractRobustChannel) -> None:
        queue = await channel.declare_queue(exclusive=True)
        sent = Message(b"hello", delivery_mode=DeliveryMode.PERSISTENT, headers={"k": [1, 2]}, message_id="m")
        assert await channel.default_exchange.publish(sent, queue.name) is not None
        async with queue.iterator() as messages:
            async for message in messages:
                async with message.process():
                    assert (message.body, message.headers, message.message_id) == (b"hello", {"k": [1, 2]}, "m")
                break
        assert await queue.get(fail=False) is None

    play(broker, scene)


def test_a_thousand_confirms_at_once(broker: Broker) -> None:
    async def scene(_connection: AbstractRobustConnection, channel: AbstractRobustChannel) -> None:
        queue = await channel.declare_queue(exclusive=True)
        publish = channel.default_exchange.publish
        await asyncio.gather(*(publish(Message(str(n).encode()), queue.name) for n in range(1000)))
        bodies = [(await queue.get(no_ack=True)).body for _ in range(1000)]
        assert bodies == [str(n).encode() for n in range(1000)]

    play(broker, scene)


def test_an_unroutable_message_is_returned(broker: Broker, unique: Unique) -> None:
    async def scene(connection: AbstractRobustConnection, _channel: AbstractRobustChannel) -> None:
        async with connection.channel(on_return_raises=True) as strict:
            with pytest.raises(PublishError):
                await strict.default_exchange.publish(Message(b"lost"), unique("nowhere"), mandatory=True)

    play(broker, scene)


def test_a_full_queue_refuses(broker: Broker) -> None:
    async def scene(_connection: AbstractRobustConnection, channel: AbstractRobustChannel) -> None:
        queue = await channel.declare_queue(
            exclusive=True, arguments={"x-max-length": 1, "x-overflow": "reject-publish"}
        )
        await channel.default_exchange.publish(Message(b"first"), queue.name)
        with pytest.raises(DeliveryError):
            await channel.default_exchange.publish(Message(b"second"), queue.name)

    play(broker, scene)


ROUTES: list[tuple[ExchangeType, dict[str, Any], dict[str, Any], bool]] = [
    (ExchangeType.TOPIC, {"routing_key": "*.orders.#"}, {"routing_key": "eu.orders.new.1"}, True),
    (ExchangeType.TOPIC, {"routing_key": "*.orders.#"}, {"routing_key": "orders.new"}, False),
    (ExchangeType.TOPIC, {"routing_key": "#"}, {"routing_key": ""}, True),
    (ExchangeType.FANOUT, {"routing_key": ""}, {"routing_key": "anything"}, True),
    (ExchangeType.DIRECT, {"routing_key": "a"}, {"routing_key": "b"}, False),
    (ExchangeType.HEADERS, {"arguments": {"x-match": "all", "a": 1, "b": "x"}}, {"headers": {"a": 1, "b": "x"}}, True),
    (ExchangeType.HEADERS, {"arguments": {"x-match": "all", "a": 1, "b": "x"}}, {"headers": {"a": 1}}, False),
    (ExchangeType.HEADERS, {"arguments": {"x-match": "any", "a": 1, "b": "x"}}, {"headers": {"a": 1}}, True),
]


@pytest.mark.parametrize(("kind", "binding", "sent", "arrives"), ROUTES)
def test_routes(
    broker: Broker, unique: Unique, kind: ExchangeType, binding: dict[str, Any], sent: dict[str, Any], arrives: bool
) -> None:
    async def scene(_connection: AbstractRobustConnection, channel: AbstractRobustChannel) -> None:
        exchange = await channel.declare_exchange(unique("events"), kind, auto_delete=True)
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(exchange, **binding)
        message = Message(b"event", headers=sent.get("headers"))
        await exchange.publish(message, sent.get("routing_key", ""), mandatory=False)
        assert (await queue.get(fail=False, no_ack=True) is not None) is arrives

    play(broker, scene)


def test_exchanges_can_be_bound_to_exchanges(broker: Broker, unique: Unique) -> None:
    async def scene(_connection: AbstractRobustConnection, channel: AbstractRobustChannel) -> None:
        source = await channel.declare_exchange(unique("source"), ExchangeType.TOPIC, auto_delete=True)
        target = await channel.declare_exchange(unique("target"), ExchangeType.FANOUT, auto_delete=True)
        queue = await channel.declare_queue(exclusive=True)
        await queue.bind(target)
        await target.bind(source, "a.*")
        await source.publish(Message(b"through"), "a.b")
        assert (await queue.get(no_ack=True)).body == b"through"

    play(broker, scene)


def test_a_refused_channel_is_closed_alone(broker: Broker, unique: Unique) -> None:
    async def scene(connection: AbstractRobustConnection, channel: AbstractRobustChannel) -> None:
        name = unique("orders")
        await channel.declare_queue(name, exclusive=True)
        other = await connection.channel()
        with pytest.raises(ChannelPreconditionFailed):
            await other.declare_queue(name, exclusive=True, auto_delete=True)
        assert (await channel.declare_queue(name, exclusive=True)).name == name

    play(broker, scene)


def test_the_rpc_pattern(broker: Broker, unique: Unique) -> None:
    async def scene(_connection: AbstractRobustConnection, channel: AbstractRobustChannel) -> None:
        async def multiply(*, x: int, y: int) -> int:
            return x * y

        rpc = await RPC.create(channel)
        name = unique("multiply")
        await rpc.register(name, multiply, auto_delete=True)
        assert await asyncio.gather(*(rpc.call(name, {"x": n, "y": 2}) for n in range(20))) == list(range(0, 40, 2))
        await rpc.close()

    play(broker, scene)


def test_the_master_and_worker_pattern(broker: Broker, unique: Unique) -> None:
    async def scene(_connection: AbstractRobustConnection, channel: AbstractRobustChannel) -> None:
        done: asyncio.Queue[int] = asyncio.Queue()

        async def work(*, number: int) -> None:
            await done.put(number)

        master = Master(channel)
        name = unique("work")
        worker = await master.create_worker(name, work, auto_delete=True)
        for number in range(10):
            await master.create_task(name, {"number": number})
        assert [await done.get() for _ in range(10)] == list(range(10))
        await worker.close()

    play(broker, scene)


def test_a_robust_connection_comes_back_and_goes_on_consuming(broker: Broker) -> None:
    async def scene(connection: AbstractRobustConnection, channel: AbstractRobustChannel) -> None:
        got: asyncio.Queue[bytes] = asyncio.Queue()

        async def received(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            async with message.process():
                await got.put(message.body)

        back = asyncio.Event()
        connection.reconnect_callbacks.add(lambda *_: back.set())
        queue = await channel.declare_queue("", auto_delete=True)
        await queue.consume(received)
        assert connection.transport is not None
        await connection.transport.connection.close(RuntimeError("the network is gone"))
        await back.wait()
        await channel.default_exchange.publish(Message(b"after"), queue.name)
        assert await got.get() == b"after"

    play(broker, scene)
