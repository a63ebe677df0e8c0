"""The client over AMQP when servers go: killed while it sends, stopped and started again, one of several; and TLS."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import leveret
from tests.rabbitmq.rabbit import free_port
from tests.server.certificates import Authority
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S, wait_until

RETRIES = 1_000
KILLS = 3


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server on a port that stays its own."""
    with ServerProcess(tmp_path, "--amqp-port", str(free_port())) as running:
        yield running


class Sender(threading.Thread):
    """Sends numbers one after the other; knows which of them are confirmed."""

    def __init__(self, queue: Any) -> None:
        super().__init__()
        self._queue = queue
        self.confirmed: list[int] = []
        self.goes_on = True

    def run(self) -> None:
        number = 0
        while self.goes_on:
            self._queue.send_many([str(number + place) for place in range(50)])
            self.confirmed += range(number, number + 50)
            number += 50


def test_nothing_that_was_confirmed_is_lost_when_servers_are_killed(server: ServerProcess) -> None:
    """What was not confirmed is published again: it may be there twice."""
    with leveret.connect(server.url, retries=RETRIES, timeout=PATIENCE_S) as client:
        orders = client.queue("orders")
        sender = Sender(orders)
        sender.start()
        for _ in range(KILLS):
            before = len(sender.confirmed)
            wait_until(lambda before=before: len(sender.confirmed) > before + 100)  # type: ignore[misc]
            server.kill()
            server.start()
        before = len(sender.confirmed)
        wait_until(lambda: len(sender.confirmed) > before)
        sender.goes_on = False
        sender.join()
        found = []
        while batch := orders.receive(1_000):
            found += [int(message.body) for message in batch]
            orders.ack_many(batch)
        assert set(found) >= set(sender.confirmed)


def test_a_worker_goes_on_after_a_restart(server: ServerProcess) -> None:
    with leveret.connect(server.url, retries=1) as client:
        orders = client.queue("orders")
        done: list[str] = []

        @orders.worker(concurrency=2)
        def work(message: Any) -> None:
            done.append(message.body)

        orders.send("before")
        wait_until(lambda: "before" in done)
        server.kill()
        server.start()
        with leveret.connect(server.url) as other:
            other.queue("orders", create=False).send("after")
        wait_until(lambda: "after" in done)
        assert work.stop()


def test_a_loop_of_asyncio_goes_on_after_a_restart(server: ServerProcess) -> None:
    async def scenario() -> None:
        async with leveret.aconnect(server.url, retries=RETRIES, timeout=PATIENCE_S) as client:
            orders = await client.queue("orders")
            await orders.send("before")
            found = []
            async for message in orders:
                found.append(message.body)
                if message.body == "before" and not message.redelivered:
                    server.kill()
                    server.start()
                    while client.session.link.connection.up:  # type: ignore[attr-defined]
                        await asyncio.sleep(0)
                    with pytest.raises(leveret.InvalidReceipt, match="lost"):
                        await message.nack()
                    await orders.send("after")
                    continue
                await message.ack()
                if {"before", "after"} <= {*found[1:]}:
                    break
            await client.flush()
            assert len(found) >= 3

    asyncio.run(scenario())


def test_the_next_server_is_asked_when_one_is_gone(server: ServerProcess) -> None:
    gone = free_port()
    with leveret.connect([f"amqp://127.0.0.1:{gone}", server.url], retries=1) as client:
        orders = client.queue("orders")
        orders.send("found it")
        assert [message.body for message in orders.receive()] == ["found it"]


def test_a_dedup_id_makes_what_is_sent_again_one_message(server: ServerProcess) -> None:
    with leveret.connect(server.url) as client:
        orders = client.queue("orders", dedup_window=60)
        for _ in range(2):
            orders.send("once", dedup_id="a")
        assert [(message.body, message.dedup_id) for message in orders.receive(5)] == [("once", "a")]


def test_tls_and_a_certificate_of_ones_own(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    identity = authority.issue("localhost", ("localhost",))
    flags = ("--amqps-port", "0", "--tls-cert", str(identity.cert), "--tls-key", str(identity.key))
    with ServerProcess(tmp_path, *flags) as server:
        url = f"amqps://guest:guest@localhost:{server.ports['amqps']}"
        context = ssl.create_default_context(cafile=str(authority.cert))
        with leveret.connect(url, tls=context) as client:
            orders = client.queue("orders")
            sent = orders.send_many([b"x" * 100_000] * 50)
            assert [message.id for message in orders.receive(100)] == sent

        async def scenario() -> None:
            async with leveret.aconnect(url, tls=context) as client:
                orders = await client.queue("orders")
                assert len(await orders.receive(100, wait=PATIENCE_S)) == 50

        asyncio.run(scenario())
        with (
            leveret.connect(url, retries=0) as stranger,
            pytest.raises(leveret.Unreachable, match="certificate verify failed"),
        ):
            stranger.queue("orders")
