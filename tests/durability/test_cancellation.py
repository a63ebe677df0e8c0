"""asyncio: a cancelled task neither loses nor keeps a message, and a large body does not hold up the loop."""

import asyncio
import random
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import leveret
from leveret.runtime.large_bodies import LargeBodies
from tests.durability.conftest import Life
from tests.waiting import PATIENCE_S

LARGE = b"x" * 300_000


def test_cancelled_receivers_lose_nothing(life: Life) -> None:
    broker = life.open()
    orders = broker.queue("orders")
    chance = random.Random(5)
    taken: list[object] = []

    async def receive() -> None:
        for message in await leveret.AsyncQueue(orders).receive(3, wait=1_000):
            taken.append(message.body)
            await message.ack()

    async def scenario() -> None:
        tasks: list[asyncio.Task[None]] = []
        for number in range(300):
            tasks.append(asyncio.create_task(receive()))
            if chance.random() < 0.5:
                await asyncio.sleep(0)
            if chance.random() < 0.5:
                chance.choice(tasks).cancel()
            if chance.random() < 0.7:
                await leveret.AsyncQueue(orders).send(number)
            if chance.random() < 0.3:
                chance.choice(tasks).cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(scenario())
    stats = orders.stats()
    assert stats.published > 100
    assert (stats.leased, stats.waiters) == (0, 0), "somebody who is gone still has a message, or waits for one"
    rest = [message.body for message in orders.receive(1_000)]
    assert len(taken) > 50
    assert len(taken) + len(rest) == stats.published
    assert not set(taken) & set(rest)


def test_a_receiver_whose_time_is_over_leaves_the_message(life: Life) -> None:
    orders = life.open().queue("orders")

    async def scenario() -> None:
        for number in range(50):
            receiver = asyncio.create_task(asyncio.wait_for(leveret.AsyncQueue(orders).receive(1, wait=1_000), 0.001))
            await asyncio.sleep(0.001)
            await leveret.AsyncQueue(orders).send(number)
            await asyncio.gather(receiver, return_exceptions=True)
            if not receiver.cancelled() and receiver.exception() is None:
                for message in receiver.result():
                    await message.ack()

    asyncio.run(scenario())
    stats = orders.stats()
    assert (stats.leased, stats.acked + stats.ready) == (0, 50)


def test_a_cancelled_sender_may_have_sent_and_nothing_is_half_done(life: Life) -> None:
    broker = life.open()
    orders = broker.queue("orders")
    confirmed = []

    async def send(number: int) -> None:
        confirmed.append(await leveret.AsyncQueue(orders).send(number, headers={"large": number % 2}))

    async def scenario() -> None:
        tasks = [asyncio.create_task(send(number)) for number in range(100)]
        await asyncio.sleep(0)
        for task in tasks[::3]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(scenario())
    life.kill()
    found = [message.id for message in life.open().queue("orders").receive(1_000)]
    assert len(confirmed) >= 66
    assert set(confirmed) <= set(found)
    assert len(found) == len(set(found))


@pytest.mark.parametrize("verb", ["send", "send_many", "publish"])
def test_a_large_body_does_not_hold_up_the_loop(life: Life, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    broker = life.open()
    orders = broker.queue("orders")
    broker.exchange("events", "fanout").bind(orders)
    stored, put = threading.Event(), LargeBodies.put

    def slow(self: LargeBodies, data: bytes, now_ms: int) -> bytes:
        assert stored.wait(PATIENCE_S), "the loop stood still"
        return put(self, data, now_ms)

    monkeypatch.setattr(LargeBodies, "put", slow)

    async def scenario() -> None:
        send: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
            "send": lambda: leveret.AsyncQueue(orders).send(LARGE),
            "send_many": lambda: leveret.AsyncQueue(orders).send_many([LARGE, "small"]),
            "publish": lambda: leveret.AsyncExchange(broker.exchange("events")).publish("", LARGE),
        }
        sender = asyncio.create_task(send[verb]())
        await leveret.AsyncQueue(orders).send("meanwhile")
        assert not sender.done()
        stored.set()
        await sender

    asyncio.run(scenario())
    first, second = orders.receive(2)
    assert (first.body, second.data) == ("meanwhile", LARGE)


def test_a_sender_of_a_large_body_that_is_cancelled_leaves_no_orphan(life: Life) -> None:
    orders = life.open().queue("orders")

    async def scenario() -> None:
        sender = asyncio.create_task(leveret.AsyncQueue(orders).send(LARGE))
        await asyncio.sleep(0)
        sender.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sender

    asyncio.run(scenario())
    blobs = life.path / "blobs"
    assert len(list(blobs.iterdir())) == len(orders)
    for message in orders.receive():
        message.ack()
    life.until(lambda: not list(blobs.iterdir()))
