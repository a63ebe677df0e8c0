"""The same verbs for asyncio."""

import asyncio
import inspect
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


def test_every_verb_that_waits_has_a_twin(reopen: Reopen) -> None:
    broker = reopen()

    async def scenario() -> None:
        dlq, orders = await broker.adeclare_queues(["dlq", "orders"])
        assert (await broker.aqueue("orders")).name == "orders"
        events = await broker.aexchange("events", "fanout")
        await events.abind(orders)
        assert await events.apublish("", "x") is not None
        await events.aunbind(orders)
        assert await events.apublish("", "x") is None
        await events.adelete()
        await orders.apause()
        assert await orders.areceive() == []
        await orders.aresume()
        later = await orders.asend("later", delay=60)
        assert (await orders.acancel(later), await orders.acancel(later)) == (True, False)
        assert (await orders.aredrive(dlq)).moved == 1
        assert await dlq.adiscard(priority_max=0) == 1
        await orders.asend_many(["a", "b"])
        assert await orders.apurge() == 2
        await broker.apolicy("some", "^o", {"max-length": 1})
        await broker.adelete_policy("some")
        await broker.aflush()
        assert await orders.adelete() == 0

    run(scenario())
    assert run(broker.aclose()) is None
    assert [each.name for each in reopen().queues()] == ["dlq"]


def test_a_member_for_tasks(broker: leveret.Broker) -> None:
    async def scenario() -> None:
        clicks = await broker.astream("clicks", partitions=2)
        billing = await clicks.agroup("billing")
        async with billing.aconsumer("one") as one:
            waiting = asyncio.create_task(one.poll(wait=PATIENCE_S))
            while clicks.stats().waiters == 0:
                await asyncio.sleep(0)
            await clicks.asend_many(["a", "b", "c"], key="k")
            assert [record.body for record in await waiting] == ["a", "b", "c"]
            assert await one.commit()
            await clicks.asend("d", key="k")
            assert [record.body for record in await one.poll()] == ["d"]
            async with billing.aconsumer("two") as two:
                assert len(two.partitions) == 1
                assert not await one.commit(), "the group has changed"
            async for record in one:
                assert record.body == "d"
                break
            assert await one.commit()
        assert sum(billing.lag().values()) == 0
        await billing.areset("earliest")
        assert sum(billing.lag().values()) == 4
        assignment = await billing.ajoin("three")
        await billing.acommit("three", assignment.generation, dict.fromkeys(assignment.partitions, 0))
        billing.leave("three")
        await billing.adelete()
        assert await clicks.adelete() == 4

    run(scenario())


def test_twins_keep_signatures_and_say_what_they_do() -> None:
    for kind in (leveret.Broker, leveret.Exchange, leveret.Group, leveret.Queue, leveret.Stream):
        for name in (each for each in dir(kind) if each.startswith("a") and hasattr(kind, each[1:])):
            twin, verb = getattr(kind, name), getattr(kind, name[1:])
            assert twin.__doc__, f"{kind.__name__}.{name}"
            assert inspect.iscoroutinefunction(twin) or name in ("aiterate", "aconsumer")
            assert not inspect.iscoroutinefunction(verb)
