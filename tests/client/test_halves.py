"""The client for threads and the one for asyncio offer the same."""

import asyncio

import pytest

import leveret
from leveret.client import broker, group, message, queue, stream
from tests.protocols.rest.world import RestWorld
from tests.waiting import PATIENCE_S

PAIRS = {
    "Broker": (broker.RemoteBroker, broker.AsyncRemoteBroker),
    "Exchange": (broker.RemoteExchange, broker.AsyncRemoteExchange),
    "Group": (group.RemoteGroup, group.AsyncRemoteGroup),
    "GroupConsumer": (group.RemoteGroupConsumer, group.AsyncRemoteGroupConsumer),
    "Message": (message.RemoteMessage, message.AsyncRemoteMessage),
    "Queue": (queue.RemoteQueue, queue.AsyncRemoteQueue),
    "Reader": (stream.RemoteReader, stream.AsyncRemoteReader),
    "Stream": (stream.RemoteStream, stream.AsyncRemoteStream),
}
OF_WORKERS = {
    "Queue": {"worker", "run", "flush"},
}


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_threads_and_asyncio_have_the_same_verbs(name: str) -> None:
    threaded, asynchronous = ({each for each in dir(half) if not each.startswith("_")} for half in PAIRS[name])
    assert threaded - asynchronous == OF_WORKERS.get(name, set())
    assert asynchronous <= threaded


@pytest.mark.parametrize("name", sorted(PAIRS))
@pytest.mark.parametrize("protocol", [("__iter__", "__aiter__"), ("__enter__", "__aenter__")], ids=["iter", "with"])
def test_threads_and_asyncio_have_the_same_protocols(name: str, protocol: tuple[str, str]) -> None:
    threaded, asynchronous = PAIRS[name]
    assert hasattr(threaded, protocol[0]) == hasattr(asynchronous, protocol[1])


def test_what_asyncio_asks_for_is_an_attribute_for_threads(world: RestWorld) -> None:
    async def scenario() -> None:
        async with leveret.aconnect(world.url, token=world.token) as client:
            orders = await client.queue("orders", display_name="Orders", visibility_timeout=7)
            assert await (await client.queue("orders", create=False)).display_name() == "Orders"
            assert await orders.created_at() == world.broker.queue("orders").created_at
            assert (await orders.durable(), await orders.lease_ms()) == (True, 7_000)
            assert await orders.arguments() == world.broker.queue("orders").arguments
            clicks = await client.stream("clicks", partitions=3)
            assert await clicks.partitions() == 3
            async with await clicks.reader() as reader:
                assert await reader.read() == []
            await client.flush()
            with pytest.warns(DeprecationWarning, match="declare is called create"):
                await client.queue("orders", declare=False)

    asyncio.run(scenario())


def test_closing_ends_tasks_that_wait(world: RestWorld) -> None:
    async def scenario() -> None:
        client = leveret.aconnect(world.url, token=world.token)
        orders = await client.queue("orders")
        waiting = asyncio.create_task(orders.receive(wait=PATIENCE_S))
        while world.broker.queue("orders").stats().waiters == 0:
            await asyncio.sleep(0.001)
        await client.close()
        with pytest.raises(leveret.BrokerClosed):
            await waiting

    asyncio.run(scenario())
