"""What is only the client's: addresses, asyncio, workers over restarts, encryption, other protocols."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

import leveret
from leveret.client.queue import RECEIVE_MAX, SEND_MAX
from leveret.client.servers import address_of
from leveret.http_client import AnswerReader
from tests.cluster.coordination.etcd_process import free_ports
from tests.protocols.rest.world import RestWorld
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S


@pytest.mark.parametrize("url", ["", "localhost", "ftp://h", "http://", "http://h/?a=b"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(leveret.InvalidArgument):
        leveret.connect(url)


def test_an_address_says_nothing_secret() -> None:
    address = address_of("http://alice:s%40crt@[::1]:8080/base/", None, None)
    assert (address.host, address.port, address.base) == ("::1", 8080, "/base")
    assert "Basic YWxpY2U6c0BjcnQ=" in address.head
    assert repr(address) == "http://::1:8080/base"
    with pytest.raises(leveret.InvalidArgument, match="line break"):
        address_of("http://h", "a\r\nX: y", None)
    with pytest.raises(leveret.InvalidArgument) as refused:
        leveret.connect("ftp://alice:secret@h")
    assert "secret" not in str(refused.value)


def test_a_wrong_token_is_refused(world: RestWorld) -> None:
    with leveret.connect(world.url, token="lvk_wrong") as client, pytest.raises(leveret.AccessRefused):
        client.queue("orders")


def test_who_may_only_send_asks_for_no_more(world: RestWorld) -> None:
    world.broker.queue("orders")
    with leveret.connect(world.url, token=world.add_token("guest", ["write:orders"])) as client:
        with pytest.raises(leveret.AccessRefused):
            client.queue("orders")
        orders = client.queue("orders", create=False)
        orders.send("x")
        with pytest.raises(leveret.AccessRefused):
            orders.receive()


def test_what_is_no_answer_of_ours_is_told() -> None:
    with pytest.raises(leveret.Unreachable, match="not HTTP"):
        AnswerReader().feed(b"220 mail.example ESMTP\r\n")
    answer = AnswerReader().feed(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n<p>")
    assert answer is not None
    with pytest.raises(leveret.Unreachable, match="not JSON"):
        answer.json()


def test_more_than_one_request_takes(client: leveret.RemoteBroker) -> None:
    orders = client.queue("orders")
    bodies = [str(number) for number in range(SEND_MAX + 1)]
    assert len(set(orders.send_many(bodies))) == SEND_MAX + 1
    taken = orders.receive(RECEIVE_MAX + 1)
    assert [message.body for message in taken] == bodies[: RECEIVE_MAX + 1]
    orders.ack_many(taken)
    assert orders.stats().acked == RECEIVE_MAX + 1


def test_every_verb_for_asyncio(world: RestWorld) -> None:
    async def scenario() -> None:
        async with leveret.aconnect(world.url, token=world.token) as client:
            orders = await client.queue("orders", dead_letter="dlq", backoff="none")
            sent = await orders.send({"n": 1}, headers={"a": "b"}, priority=3)
            many = await orders.send_many(["x", "y", "z"])
            later = await orders.send("later", delay=60)
            assert [each.id for each in await orders.scheduled()] == [later]
            assert await orders.cancel(later)
            assert not await orders.cancel(later)
            assert len(await orders.browse()) == 4
            first, second, third, fourth = await orders.receive(10)
            assert [each.id for each in (first, second, third, fourth)] == [sent, *many]
            await first.ack()
            await second.nack(delay=100)
            await third.extend(100)
            await third.reject()
            await orders.ack_many([fourth])
            dlq = await client.queue("dlq")
            assert (await dlq.redrive(orders)).moved == 1
            (again,) = await orders.receive(wait=5)
            await orders.nack(again.receipt, 0)
            (again,) = await orders.receive()
            await orders.extend(again.receipt, 10)
            await orders.ack(again.receipt)
            await orders.pause()
            await orders.send("x")
            assert await orders.receive() == []
            await orders.resume()
            assert await orders.purge() == 1
            events = await client.exchange("events", "fanout")
            await events.bind(orders)
            assert await (await client.exchange("events")).publish("", "x") is not None
            async for message in orders:
                await orders.reject(message.receipt)
                break
            await events.unbind(orders)
            await events.delete()
            assert [each.name for each in await client.queues()] == ["dlq", "orders"]
            assert await orders.delete() == 0

    asyncio.run(scenario())


def test_a_cancelled_request_does_not_confuse_the_next_one(world: RestWorld) -> None:
    async def scenario() -> None:
        async with leveret.aconnect(world.url, token=world.token) as client:
            orders = await client.queue("orders")
            waiting = asyncio.create_task(orders.receive(wait=60))
            while world.broker.queue("orders").stats().waiters == 0:
                await asyncio.sleep(0.001)
            waiting.cancel()
            while world.broker.queue("orders").stats().waiters:
                await asyncio.sleep(0.001)
            await orders.send("x")
            assert [message.body for message in await orders.receive()] == ["x"]

    asyncio.run(scenario())


def test_a_worker_goes_on_after_a_restart_of_the_server(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    seen: SimpleQueue[object] = SimpleQueue()
    (port,) = free_ports(1)  # to come back to
    with (
        ServerProcess(tmp_path, "--http-port", str(port)) as server,
        leveret.connect(server.http_url, retries=0) as client,
    ):
        orders = client.queue("orders")

        @orders.worker(concurrency=2)
        def work(message: Any) -> None:
            seen.put(message.body)

        orders.send("before")
        assert seen.get(timeout=PATIENCE_S) == "before"
        server.kill()
        server.start()
        with server.client() as other:
            other.queue("orders").send("after")
        while seen.get(timeout=PATIENCE_S) != "after":
            continue  # the acknowledgement of the first one may have been lost
        assert work.stop()


def test_sealed_payloads() -> None:
    key = leveret.Cipher.new_key()
    cipher = leveret.Cipher(key)
    sealed = cipher.seal({"card": "4111"})
    assert sealed["encrypted"] is True
    assert "4111" not in sealed["payload"]
    assert cipher.open(sealed) == {"card": "4111"}
    rotated = leveret.Cipher([leveret.Cipher.new_key(), key])
    assert rotated.open(sealed) == {"card": "4111"}
    with pytest.raises(leveret.WrongKey):
        leveret.Cipher(leveret.Cipher.new_key()).open(sealed)
    with pytest.raises(leveret.WrongKey):
        cipher.open({**sealed, "payload": sealed["payload"][:-4] + "AAAA"})
    for plain in ({"card": "4111"}, "text", {"encrypted": True, "payload": 1}):
        with pytest.raises(leveret.InvalidArgument, match="not sealed"):
            cipher.open(plain)
    for keys in ([], "short", ["not base64!"]):
        with pytest.raises(leveret.InvalidArgument):
            leveret.Cipher(keys)


def test_sealed_payloads_travel(client: leveret.RemoteBroker, world: RestWorld) -> None:
    cipher = leveret.Cipher(leveret.Cipher.new_key())
    client.queue("orders").send(cipher.seal({"card": "4111"}))
    (message,) = world.broker.queue("orders").receive()
    assert b"4111" not in message.data
    assert cipher.open(message.body) == {"card": "4111"}


@pytest.mark.parametrize("connect", [leveret.connect, leveret.aconnect])
def test_options_that_nobody_knows_are_refused(connect: Callable[..., object]) -> None:
    with pytest.raises(leveret.InvalidArgument, match=r"the options token, .* not timeouts"):
        connect(timeouts=1)
