"""The client over AMQP, on Leveret and on RabbitMQ (`make rabbitmq`): what programs do, for threads and for asyncio."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

import leveret
from leveret.client.amqp.broker import AmqpBroker
from tests.clients.conftest import unique as unique
from tests.rabbitmq import rabbit
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S, wait_until

Unique = Callable[[str], str]
BODY = b"x" * 1_024


@pytest.fixture(scope="module", params=["leveret", "rabbitmq"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Each broker in turn."""
    folder = tmp_path_factory.mktemp("broker")
    if request.param == "leveret":
        with ServerProcess(folder) as server:
            yield server.url
        return
    if not os.environ.get("RABBITMQ"):
        pytest.skip("`make rabbitmq` runs this on RabbitMQ")
    if not rabbit.installed():
        pytest.skip("RabbitMQ is not installed: on Debian, `apt-get install rabbitmq-server`")
    with rabbit.running(folder) as (host, port):
        yield f"amqp://{host}:{port}/"


@pytest.fixture
def client(url: str) -> Iterator[leveret.RemoteBroker]:
    with leveret.connect(url) as connected:
        yield connected


def is_leveret(client: Any) -> bool:
    return str(client.session.link.connection.product) == "Leveret"


def test_bodies_come_back_as_they_were_sent(client: leveret.RemoteBroker, unique: Unique) -> None:
    orders = client.queue(unique("orders"))
    headers = {"n": 1, "when": datetime(2026, 1, 1, tzinfo=UTC)}
    ids = [orders.send(b"bytes"), orders.send("text", headers=headers, properties={"correlation_id": "c"})]
    ids.append(orders.send({"json": [1, None]}, ttl=60, properties={"message_id": "mine"}))
    assert len(orders) == 3
    found = orders.receive(10)
    assert [message.body for message in found] == [b"bytes", "text", {"json": [1, None]}]
    assert [message.id for message in found] == ids
    assert ids[2] == "mine"
    assert (found[1].headers, found[1].properties.correlation_id) == (headers, "c")
    assert [message.redelivered for message in found] == [False] * 3
    assert found[0].data == b"bytes"
    assert (found[0].exchange, found[0].routing_key, found[0].deliveries) == ("", orders.name, 1)
    found[0].ack()
    orders.ack(found[1].receipt)
    found[2].nack()
    client.flush()
    (again,) = orders.receive(wait=PATIENCE_S)
    assert (again.body, again.redelivered) == ({"json": [1, None]}, True)
    orders.ack_many([again])
    with pytest.raises(leveret.InvalidReceipt, match="1 of 1"):
        orders.ack_many([again])
    with pytest.raises(leveret.InvalidReceipt):
        again.ack()
    client.flush()
    assert orders.receive() == []
    assert orders.delete() == 0


def test_many_messages_in_their_order(client: leveret.RemoteBroker, unique: Unique) -> None:
    orders = client.queue(unique("orders"))
    mixed: list[Any] = [b"%d" % number for number in range(2_500)]
    mixed += ["text", leveret.Outgoing("own", headers={"a": 1}), {"json": 1}]
    ids = orders.send_many(mixed)
    assert len(set(ids)) == len(mixed)
    taken = []
    for message in orders:
        taken.append((message.id, message.data))
        message.ack()
        if len(taken) == len(mixed):
            break
    assert [each for each, _ in taken] == ids
    assert [data for _, data in taken][:2_500] == mixed[:2_500]
    client.flush()
    wait_until(lambda: len(orders) == 0)


def test_large_messages_travel_in_many_frames(client: leveret.RemoteBroker, unique: Unique) -> None:
    orders = client.queue(unique("orders"))
    body = os.urandom(3_000_000)
    orders.send_many([body, b""])
    assert [message.data for message in orders.receive(2)] == [body, b""]


def test_waiting_for_a_message_from_another_thread(url: str, client: leveret.RemoteBroker, unique: Unique) -> None:
    orders = client.queue(unique("orders"))
    assert orders.receive(5, wait=0.01) == []
    with ThreadPoolExecutor(1) as pool, leveret.connect(url) as other:
        waiting = pool.submit(orders.receive, 5, wait=PATIENCE_S)
        other.queue(orders.name, create=False).send("here")
        (message,) = waiting.result()
    message.ack()
    assert message.body == "here"


def test_threads_share_a_client(client: leveret.RemoteBroker, unique: Unique) -> None:
    orders = client.queue(unique("orders"))
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda number: orders.send(str(number)), range(400)))
    assert len(set(ids)) == 400
    assert sorted(int(message.body) for message in orders.receive(1_000)) == list(range(400))


def test_workers_settle_by_what_their_function_does(client: leveret.RemoteBroker, unique: Unique) -> None:
    dead = client.queue(unique("dead"))
    orders = client.queue(unique("orders"), dead_letter=dead.name)
    done, gate = [], threading.Semaphore(0)

    @orders.worker(concurrency=4)
    def work(message: Any) -> None:
        if message.body == "bad":
            raise leveret.Reject
        done.append(message.body)
        gate.release()

    orders.send_many([*map(str, range(100)), "bad"])
    for _ in range(100):
        assert gate.acquire(timeout=PATIENCE_S)
    (letter,) = dead.receive(wait=PATIENCE_S)
    assert letter.body == "bad"
    assert letter.headers["x-death"][0]["reason"] == "rejected"
    work.stop()
    assert work.failure is None
    assert sorted(map(int, done)) == list(range(100))
    assert len(orders) == 0


def test_exchanges_route_and_say_when_nothing_took_it(client: leveret.RemoteBroker, unique: Unique) -> None:
    orders, events = client.queue(unique("orders")), client.exchange(unique("events"), "topic")
    events.bind(orders, "order.*")
    assert events.publish("order.new", {"id": 1}) is not None
    assert events.publish("invoice.new", {"id": 2}) is None
    assert client.exchange(events.name).name == events.name
    behind = client.exchange(unique("behind"), "fanout")
    events.bind(behind, "x")
    behind.bind(orders.name)
    assert events.publish("x", "through both") is not None
    assert [message.body for message in orders.receive(5)] == [{"id": 1}, "through both"]
    events.unbind(orders, "order.*")
    assert events.publish("order.new", {}) is None
    for each in (events, behind):
        each.delete()
    with pytest.raises(leveret.ExchangeNotFound, match="declare it first"):
        events.publish("order.new", {})
    assert orders.send("goes on")


def test_refusals_are_those_of_the_other_clients(client: leveret.RemoteBroker, unique: Unique) -> None:
    absent = client.queue(unique("absent"), create=False)
    for ask in (lambda: absent.send(1), lambda: absent.send_many([1, 2]), absent.receive, absent.purge):
        with pytest.raises(leveret.QueueNotFound, match="declare it first"):
            ask()
    with pytest.raises(leveret.QueueNotFound):
        absent.receive(wait=1)
    with pytest.raises(leveret.QueueNotFound):
        next(iter(absent))
    small = client.queue(unique("small"), max_length=1, overflow="reject-publish")
    assert small.send(1)
    with pytest.raises(leveret.QueueFull, match="it is full"):
        small.send(2)
    assert small.send_many([3]) == [None]
    with pytest.raises(leveret.PreconditionFailed):
        client.queue(small.name, max_length=2)
    with pytest.raises(leveret.InvalidArgument, match="delivery_mode"):
        small.send(1, properties={"delivery_mode": 1})


def test_verbs_that_amqp_does_not_have_name_the_url_to_use(client: leveret.RemoteBroker, unique: Unique) -> None:
    orders = client.queue(unique("orders"))
    place = f"http://127.0.0.1:15672/queues/{orders.name}"
    for ask in (orders.redrive, orders.stats, orders.browse, orders.pause, client.queues, client.streams):
        with pytest.raises(leveret.NotSupported, match=r"leveret.connect\('http://127.0.0.1:15672'\)"):
            ask()
    with pytest.raises(leveret.NotSupported, match=f"POST {place}/redrive"):
        orders.redrive()
    for delay in (1, 0):
        with pytest.raises(leveret.NotSupported, match="x-delayed-message"):
            orders.send(1, delay=delay)
    with pytest.raises(leveret.NotSupported, match="visibility timeout"):
        orders.receive(visibility_timeout=1)
    if not is_leveret(client):
        with pytest.raises(leveret.NotSupported, match="RabbitMQ has no queue option visibility_timeout"):
            client.queue(unique("leased"), visibility_timeout=5)


def test_streams_are_appended_to_and_read_from_any_place(client: leveret.RemoteBroker, unique: Unique) -> None:
    clicks = client.stream(unique("clicks"))
    assert clicks.send("first", key="k", filter="f") == (-1, -1)
    assert len(clicks.send_many(["second", b"third"], producer="p", sequence=1)) == 2
    found = clicks.read(0, 0, wait=PATIENCE_S)
    first = found[0]
    assert (first.body, first.offset, first.key, first.filter) == ("first", 0, "k", "f")
    with clicks.reader(0, 1) as reader:
        got: list[Any] = []
        while len(got) < 2:
            got += reader.read(wait=PATIENCE_S)
        assert [(record.body, record.sequence) for record in got] == [("second", 1), (b"third", 2)]
        assert reader.offset == 3
        clicks.send("fourth")
        assert [record.body for record in reader.read(wait=PATIENCE_S)] == ["fourth"]
    following = clicks.iterate(0, "earliest")
    assert next(following).body == "first"
    with pytest.raises(leveret.InvalidArgument, match="give wait"):
        clicks.read()
    with pytest.raises(leveret.NotSupported):
        clicks.earliest()


def test_asyncio_has_the_same_verbs(url: str, unique: Unique) -> None:
    async def scenario() -> None:
        async with leveret.aconnect(url) as client:
            orders = await client.queue(unique("orders"))
            ids = await asyncio.gather(*(orders.send(str(number)) for number in range(500)))
            assert len(set(ids)) == 500
            await orders.send_many([BODY] * 2_000)
            count = 0
            async for message in orders:
                await message.ack()
                count += 1
                if count == 2_490:
                    break
            await client.flush()
            rest: list[Any] = []
            while len(rest) < 10:
                rest += await orders.receive(20, wait=PATIENCE_S)
            assert await orders.receive() == []
            waiting = asyncio.create_task(orders.receive(wait=PATIENCE_S))
            await orders.send("woken")
            assert [message.body for message in await waiting] == ["woken"]
            waiting = asyncio.create_task(orders.receive(wait=PATIENCE_S))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            events = await client.exchange(unique("events"), "fanout")
            await events.bind(orders)
            assert await events.publish("", "through it")
            assert [message.body for message in await orders.receive(wait=PATIENCE_S)] == ["through it"]
            with pytest.raises(leveret.NotSupported):
                await orders.redrive()

    asyncio.run(scenario())


def test_closing_ends_what_waits(url: str, unique: Unique) -> None:
    client = leveret.connect(url)
    orders = client.queue(unique("orders"))
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(lambda: list(orders))
        client.flush()
        client.close()
        assert waiting.result() == []
    for ask in (orders.receive, lambda: orders.send(1), client.flush):
        with pytest.raises(leveret.BrokerClosed, match="open it again"):
            ask()
    client.close()

    async def scenario() -> None:
        client = leveret.aconnect(url)
        orders = await client.queue(unique("orders"))
        waiting = asyncio.create_task(orders.receive(wait=PATIENCE_S))
        await client.flush()
        await client.close()
        with pytest.raises(leveret.BrokerClosed):
            await waiting

    asyncio.run(scenario())


def test_logins_that_are_refused_say_what_to_do(url: str) -> None:
    wrong = "amqp://guest:wrong@" + url.rpartition("@")[2].removeprefix("amqp://")
    with leveret.connect(wrong) as client, pytest.raises(leveret.AccessRefused, match="name a user and the password"):
        client.queue("orders")
    with leveret.connect(url, vhost="nowhere") as client, pytest.raises(leveret.VhostNotFound, match="nowhere"):
        client.queue("orders")


def test_a_server_that_is_not_there_is_named() -> None:
    port = rabbit.free_port()
    with (
        leveret.connect(f"amqp://127.0.0.1:{port}", retries=1) as client,
        pytest.raises(leveret.Unreachable, match=rf"cannot connect to amqp://127.0.0.1:{port} \(Connection refused\)"),
    ):
        client.queue("orders")


def test_options_are_checked() -> None:
    for options in ({"prefetch": 0}, {"heartbeat": -1}, {"prefetch": True}):
        with pytest.raises(leveret.InvalidArgument, match="is a whole number from"):
            leveret.connect("amqp://127.0.0.1", **options)
    with pytest.raises(leveret.InvalidArgument, match="a client has the options token"):
        leveret.connect("amqp://127.0.0.1", prefetched=1)  # type: ignore[call-arg]
    with pytest.raises(leveret.InvalidArgument, match="not prefetch"):
        leveret.connect("http://127.0.0.1", prefetch=1)
    with leveret.connect(["amqp://one:1", "amqp://two:2"]) as client:
        assert isinstance(client, AmqpBroker)
        assert repr(client) == "<AmqpBroker amqp://one:1,amqp://two:2>"
        assert client.blocked is None
