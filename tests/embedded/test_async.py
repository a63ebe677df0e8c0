"""The same verbs for asyncio."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import leveret
from tests.embedded.conftest import SMALL
from tests.waiting import PATIENCE_S

Reopen = Callable[[], leveret.Broker]


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(coroutine)


def test_send_receive_and_settle(reopen: Reopen) -> None:
    orders = reopen().queue("orders", dead_letter="dlq")

    async def scenario() -> None:
        sent = await orders.asend({"n": 1}, headers={"a": "b"})
        many = await orders.asend_many(["x", "y", "z"])
        first, second, third, fourth = await orders.areceive(10)
        assert [message.id for message in (first, second, third, fourth)] == [sent, *many]
        await first.aack()
        await second.anack(delay=100)
        await third.aextend(100)
        await third.areject()
        await orders.aack_many([fourth])

    run(scenario())
    stats = orders.stats()
    assert (stats.acked, stats.nacked, stats.dead["rejected"]) == (2, 1, 1)


def test_a_task_that_waits_is_woken(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")

    async def scenario() -> list[leveret.Message]:
        receiver = asyncio.create_task(orders.areceive(1, wait=PATIENCE_S))
        while orders.stats().waiters == 0:
            await asyncio.sleep(0)
        await asyncio.to_thread(orders.send, "hello")
        return await receiver

    assert [message.body for message in run(scenario())] == ["hello"]


def test_a_task_waits_no_longer_than_asked(broker: leveret.Broker) -> None:
    assert run(broker.queue("orders").areceive(1, wait=0.001)) == []


def test_a_cancelled_task_leaves_the_message_to_the_next(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")

    async def scenario() -> list[leveret.Message]:
        gone, next_one = (asyncio.create_task(orders.areceive(1, wait=PATIENCE_S)) for _ in range(2))
        while orders.stats().waiters < 2:
            await asyncio.sleep(0)
        orders.send("hello")
        gone.cancel()
        return await next_one

    assert [message.body for message in run(scenario())] == ["hello"]
    assert orders.stats().waiters == 0


def test_iterating_ends_with_the_broker(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    orders.send_many(["a", "b"])

    async def scenario() -> list[object]:
        seen = []
        async for message in orders:
            seen.append(message.body)
            if len(seen) == 2:
                broker.close()
        return seen

    assert run(scenario()) == ["a", "b"]


def test_many_tasks_share_commits(tmp_path: Path) -> None:
    with leveret.open(str(tmp_path), **SMALL) as broker:
        orders = broker.queue("orders")
        before = broker.stats().journal

        async def scenario() -> None:
            await asyncio.gather(*(orders.asend(number) for number in range(200)))

        run(scenario())
        after = broker.stats().journal
        assert before is not None
        assert after is not None
        assert after.frames - before.frames < 100
        assert len(orders) == 200


def test_a_closed_broker_refuses(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    broker.close()
    with pytest.raises(leveret.BrokerClosed):
        run(orders.asend("x"))
