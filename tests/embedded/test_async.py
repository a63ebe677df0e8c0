"""The same verbs for asyncio."""

import asyncio
import inspect
import pydoc
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.runtime.verbs import Asynchronous, attribute
from tests.embedded.conftest import SMALL
from tests.waiting import PATIENCE_S

Reopen = Callable[[], leveret.Broker]


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(coroutine)


def test_send_receive_and_settle(reopen: Reopen) -> None:
    broker = reopen()
    orders = broker.queue("orders", dead_letter="dlq")

    async def scenario() -> None:
        queue = await leveret.AsyncEmbeddedBroker(broker).queue("orders")
        sent = await queue.send({"n": 1}, headers={"a": "b"})
        many = await queue.send_many(["x", "y", "z"])
        first, second, third, fourth = await queue.receive(10)
        assert [message.id for message in (first, second, third, fourth)] == [sent, *many]
        await first.ack()
        await second.nack(delay=100)
        await third.extend(100)
        await third.reject()
        await queue.ack_many([fourth])

    run(scenario())
    stats = orders.stats()
    assert (stats.acked, stats.nacked, stats.dead["rejected"]) == (2, 1, 1)


def test_a_task_that_waits_is_woken(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")

    async def scenario() -> list[leveret.AsyncMessage]:
        receiver = asyncio.create_task(leveret.AsyncQueue(orders).receive(1, wait=PATIENCE_S))
        while orders.stats().waiters == 0:
            await asyncio.sleep(0)
        await asyncio.to_thread(orders.send, "hello")
        return await receiver

    assert [message.body for message in run(scenario())] == ["hello"]


def test_a_task_waits_no_longer_than_asked(broker: leveret.Broker) -> None:
    assert run(leveret.AsyncQueue(broker.queue("orders")).receive(1, wait=0.001)) == []


def test_a_cancelled_task_leaves_the_message_to_the_next(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")

    async def scenario() -> list[leveret.AsyncMessage]:
        gone, next_one = (asyncio.create_task(leveret.AsyncQueue(orders).receive(1, wait=PATIENCE_S)) for _ in range(2))
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
            await asyncio.gather(*(leveret.AsyncQueue(orders).send(number) for number in range(200)))

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
        run(leveret.AsyncQueue(orders).send("x"))


def test_every_verb_that_waits(reopen: Reopen) -> None:
    opened = reopen()

    async def scenario() -> None:
        async with leveret.AsyncEmbeddedBroker(opened) as broker:
            dlq, orders = await broker.queue("dlq"), await broker.queue("orders", display_name="Orders")
            assert (orders.name, await orders.display_name()) == ("orders", "Orders")
            assert await orders.lease_ms() == 30_000
            events = await broker.exchange("events", "fanout")
            await events.bind(orders)
            assert await events.publish("", "x") is not None
            await events.unbind(orders)
            assert await events.publish("", "x") is None
            await events.delete()
            await orders.pause()
            assert await orders.receive() == []
            await orders.resume()
            later = await orders.send("later", delay=60)
            assert [each.id for each in await orders.scheduled()] == [later]
            assert (await orders.cancel(later), await orders.cancel(later)) == (True, False)
            assert (await orders.redrive(dlq)).moved == 1
            assert await dlq.discard(priority_max=0) == 1
            await orders.send_many(["a", "b"])
            assert [each.body for each in await orders.browse()] == ["a", "b"]
            assert await orders.purge() == 2
            await broker.policy("some", "^o", {"max-length": 1})
            await broker.delete_policy("some")
            await broker.flush()
            assert await orders.delete() == 0
            assert [each.name for each in await broker.queues()] == ["dlq"]

    run(scenario())
    assert [each.name for each in reopen().queues()] == ["dlq"]


def test_a_member_for_tasks(broker: leveret.Broker) -> None:
    async def scenario() -> None:
        clicks = await leveret.AsyncEmbeddedBroker(broker).stream("clicks", partitions=2)
        billing = await clicks.group("billing")
        async with billing.consumer("one") as one:
            waiting = asyncio.create_task(one.poll(wait=PATIENCE_S))
            while (await clicks.stats()).waiters == 0:
                await asyncio.sleep(0)
            await clicks.send_many(["a", "b", "c"], key="k")
            assert [record.body for record in await waiting] == ["a", "b", "c"]
            assert await one.commit()
            await clicks.send("d", key="k")
            assert [record.body for record in await one.poll()] == ["d"]
            async with billing.consumer("two") as two:
                assert len(two.partitions) == 1
                assert not await one.commit(), "the group has changed"
            async for record in one:
                assert record.body == "d"
                break
            assert await one.commit()
        assert sum((await billing.lag()).values()) == 0
        await billing.reset("earliest")
        assert sum((await billing.lag()).values()) == 4
        assignment = await billing.join("three")
        await billing.commit("three", assignment.generation, dict.fromkeys(assignment.partitions, 0))
        await billing.leave("three")
        await billing.delete()
        async with await clicks.reader(0, "first") as reader:
            assert reader.partition == 0
        assert await clicks.partitions() == 2
        assert await clicks.delete() == 4

    run(scenario())


def test_a_broker_is_opened_by_a_task(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with leveret.aopen(tmp_path, **SMALL) as broker:
            await (await broker.queue("orders")).send("kept")
        broker = await leveret.aopen(tmp_path, **SMALL)
        async for message in await broker.queue("orders", create=False):
            assert message.body == "kept"
            await message.ack()
            break
        with pytest.raises(leveret.QueueNotFound):
            await broker.queue("typo", create=False)
        await broker.close()

    run(scenario())


def test_old_names_of_verbs_warn(broker: leveret.Broker) -> None:
    old: Any = broker

    async def scenario() -> None:
        orders = await old.aqueue("orders")
        assert type(orders).__name__ == "Queue"
        await orders.asend("a")
        (message,) = await orders.areceive()
        await message.aack()
        clicks = await old.astream("clicks")
        await clicks.asend("a")
        assert len(await clicks.aread()) == 1
        async with (await clicks.agroup("billing")).aconsumer() as consumer:
            assert len(consumer.partitions) == 1

    with pytest.warns(DeprecationWarning, match="is called .* in what leveret.aopen") as warned:
        run(scenario())
    assert {each.filename for each in warned} == {__file__}
    names = ["aqueue", "asend", "areceive", "aack", "astream", "asend", "aread", "agroup", "aconsumer"]
    assert [str(each.message).partition(" ")[0] for each in warned] == names
    with pytest.raises(AttributeError, match="has no attribute 'apple'"):
        _ = old.apple


PAIRS = {
    "Broker": (leveret.AsyncEmbeddedBroker, leveret.AsyncRemoteBroker),
    "Queue": (leveret.AsyncQueue, leveret.AsyncRemoteQueue),
    "Exchange": (leveret.AsyncExchange, leveret.AsyncRemoteExchange),
    "Stream": (leveret.AsyncStream, leveret.AsyncRemoteStream),
    "Reader": (leveret.AsyncReader, leveret.AsyncRemoteReader),
    "Group": (leveret.AsyncGroup, leveret.AsyncRemoteGroup),
    "GroupConsumer": (leveret.AsyncGroupConsumer, leveret.AsyncRemoteGroupConsumer),
    "Message": (leveret.AsyncMessage, leveret.AsyncRemoteMessage),
    "Broker for threads": (leveret.Broker, leveret.RemoteBroker),
    "Queue for threads": (leveret.Queue, leveret.RemoteQueue),
    "Exchange for threads": (leveret.Exchange, leveret.RemoteExchange),
    "Stream for threads": (leveret.Stream, leveret.RemoteStream),
    "Group for threads": (leveret.Group, leveret.RemoteGroup),
    "GroupConsumer for threads": (leveret.GroupConsumer, leveret.RemoteGroupConsumer),
    "Message for threads": (leveret.Message, leveret.RemoteMessage),
}
ONLY_HERE = {
    "Broker": {"delete_policy", "policy", "stats"},
    "Broker for threads": {"declare_queues", "delete_policy", "policy", "stats"},
    "Queue for threads": {"consume"},
    "Message": {"header"},
    "Message for threads": {"header"},
}


ONLY_THERE = {"Broker": {"run"}, "Broker for threads": {"run"}}
"""A request of any kind, which the commands of `leveret` make."""


def verbs(kind: type) -> set[str]:
    """What is called; in a client for tasks that is also what may have to be asked for."""
    found = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
    asked = issubclass(kind, Asynchronous)
    return {name for name, verb in found.items() if callable(verb) or (asked and isinstance(verb, attribute))}


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_code_moves_to_a_server_by_another_constructor(name: str) -> None:
    here, there = map(verbs, PAIRS[name])
    assert here - there == ONLY_HERE.get(name, set())
    assert there - here == ONLY_THERE.get(name, set())
    for verb in (each for each in here & there if callable(getattr(PAIRS[name][1], each))):
        ours, others = (inspect.signature(getattr(kind, verb)).parameters for kind in PAIRS[name])
        assert {*others} - {"declare", "options"} <= {*ours} or "options" in ours, verb


def test_help_shows_no_internals() -> None:
    for kind in (leveret.Queue, leveret.Stream, leveret.RemoteQueue, leveret.AsyncQueue):
        text = pydoc.plain(pydoc.render_doc(kind))
        assert " send(" in text
        assert not re.search(r"\b(post_bodies|take_waiting|receipt_of|recorder)\b", text)
