"""Answers that get lost: nothing is sent or settled twice, and nothing is given up too early."""

import asyncio
import socket

import pytest

import leveret
from leveret.client.session import RETRIES
from tests.client.flaky import Flaky
from tests.protocols.rest.world import RestWorld


def test_a_message_whose_answer_was_lost_is_there_once(
    world: RestWorld, unsure: leveret.RemoteBroker, flaky: Flaky
) -> None:
    orders = unsure.queue("orders")
    flaky.lose = 2
    sent = orders.send("once")
    assert [message.id for message in world.broker.queue("orders").receive(10)] == [sent]


def test_many_messages_whose_answer_was_lost_are_there_once(
    world: RestWorld, unsure: leveret.RemoteBroker, flaky: Flaky
) -> None:
    orders = unsure.queue("orders")
    flaky.lose = 1
    sent = orders.send_many(["a", "b"])
    assert [message.id for message in world.broker.queue("orders").receive(10)] == sent


def test_publishing_is_repeated_safely(world: RestWorld, unsure: leveret.RemoteBroker, flaky: Flaky) -> None:
    orders = unsure.queue("orders")
    events = unsure.exchange("events", "fanout")
    events.bind(orders)
    flaky.lose = 1
    events.publish("", "once")
    assert len(world.broker.queue("orders")) == 1


def test_without_keys_a_message_whose_fate_is_unknown_is_not_repeated(world: RestWorld, flaky: Flaky) -> None:
    with leveret.connect(flaky.url, token=world.token, idempotent=False) as client:
        orders = client.queue("orders")
        flaky.lose = 1
        with pytest.raises(leveret.Unreachable, match="no answer came"):
            orders.send("perhaps")
        assert len(world.broker.queue("orders")) == 1
        orders.send("with a key of its own", dedup_id="k")
        flaky.lose = 1
        orders.send("with a key of its own", dedup_id="k")
        assert len(world.broker.queue("orders")) == 2


@pytest.mark.parametrize("verb", ["ack", "nack", "reject"])
def test_settling_whose_answer_was_lost_is_done_once(
    world: RestWorld, unsure: leveret.RemoteBroker, flaky: Flaky, verb: str
) -> None:
    orders = unsure.queue("orders")
    orders.send("x")
    (message,) = orders.receive()
    flaky.lose = 1
    getattr(message, verb)()
    stats = world.broker.queue("orders").stats()
    assert stats.acked + stats.nacked + stats.dead["rejected"] == 1


def test_an_ack_that_was_too_late_is_told_even_if_its_answer_was_lost(
    world: RestWorld, unsure: leveret.RemoteBroker, flaky: Flaky
) -> None:
    orders = unsure.queue("orders")
    orders.send("x")
    (message,) = orders.receive(visibility_timeout=0.001)
    while world.broker.queue("orders").stats().timed_out == 0:
        asyncio.run(asyncio.sleep(0.001))
    flaky.lose = 1
    with pytest.raises(leveret.InvalidReceipt):
        message.ack()


def test_a_lost_delivery_comes_again(world: RestWorld, unsure: leveret.RemoteBroker, flaky: Flaky) -> None:
    orders = unsure.queue("orders", visibility_timeout=0.05)
    orders.send("x")
    flaky.lose = 1
    (message,) = orders.receive(wait=5)
    assert (message.body, message.deliveries) == ("x", 2)


def test_a_redrive_is_not_repeated(unsure: leveret.RemoteBroker, flaky: Flaky) -> None:
    dlq = unsure.queue("dlq")
    flaky.lose = 1
    with pytest.raises(leveret.Unreachable):
        dlq.redrive()


def test_at_last_it_is_given_up(unsure: leveret.RemoteBroker, flaky: Flaky) -> None:
    orders = unsure.queue("orders")
    flaky.refuse = RETRIES + 1
    with pytest.raises(leveret.Unreachable):
        orders.send("x")
    assert flaky.refuse == 0
    flaky.refuse = RETRIES
    orders.send("x")


def test_nobody_listens() -> None:
    with (
        leveret.connect("http://127.0.0.1:1", retries=1) as client,
        pytest.raises(leveret.Unreachable, match="see whether it runs"),
    ):
        client.queue("orders")


def test_whoever_does_not_answer_in_time_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with (
            leveret.connect(url, retries=0, timeout=0.05) as client,
            pytest.raises(leveret.Unreachable, match=r"no answer came \(timed out\)"),
        ):
            client.queue("orders")


def test_asyncio_says_that_an_answer_took_too_long() -> None:
    async def scenario(url: str) -> None:
        async with leveret.aconnect(url, retries=0, timeout=0.05) as client:
            with pytest.raises(leveret.Unreachable, match=r"no answer came \(it took too long\)"):
                await client.queue("orders")

    with socket.create_server(("127.0.0.1", 0)) as silent:
        asyncio.run(scenario(f"http://127.0.0.1:{silent.getsockname()[1]}"))


def test_asyncio_repeats_the_same(world: RestWorld, flaky: Flaky) -> None:
    async def scenario() -> None:
        async with leveret.aconnect(flaky.url, token=world.token) as client:
            orders = await client.queue("orders")
            flaky.lose = 1
            sent = await orders.send("once")
            (message,) = await orders.receive()
            assert message.id == sent
            flaky.lose = 1
            await message.ack()
            flaky.refuse = 1
            assert (await orders.stats()).acked == 1

    asyncio.run(scenario())


def test_connections_are_kept_and_renewed(world: RestWorld, unsure: leveret.RemoteBroker, flaky: Flaky) -> None:
    orders = unsure.queue("orders")
    for _ in range(5):
        orders.send("x")
    assert flaky.connections == 1
    flaky.refuse = 1
    orders.send("x")
    assert flaky.connections == 2
