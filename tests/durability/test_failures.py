"""A failed write or sync: nothing goes on as if it had not happened."""

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import leveret
from tests.durability.children import Child
from tests.durability.conftest import Life, Waiting

CALLS = ["write", "datasync"]


def verbs(orders: leveret.Queue, message: leveret.Message) -> list[Callable[[], Any]]:
    broker = orders.broker
    return [
        lambda: orders.send("x"),
        lambda: orders.send("x" * 300_000),
        lambda: orders.send_many([b"x"]),
        lambda: asyncio.run(leveret.AsyncQueue(orders).send("x")),
        lambda: asyncio.run(leveret.AsyncQueue(orders).send("x" * 300_000)),
        orders.receive,
        lambda: asyncio.run(leveret.AsyncQueue(orders).receive()),
        message.ack,
        message.nack,
        message.reject,
        lambda: message.extend(1),
        lambda: orders.ack_many([message]),
        lambda: orders.ack(message.receipt),
        lambda: orders.run(print, concurrency=1),
        orders.purge,
        orders.browse,
        orders.stats,
        lambda: len(orders),
        broker.flush,
        broker.queues,
        broker.stats,
        lambda: broker.queue("other"),
        lambda: broker.exchange("events"),
    ]


@pytest.mark.parametrize("call", CALLS)
def test_every_verb_raises_afterwards(life: Life, call: str) -> None:
    orders = life.open().queue("orders")
    orders.send("confirmed")
    (message,) = orders.receive()
    life.disk.failing[call] = errno.EIO
    with pytest.raises(leveret.JournalFailed, match="Input/output error; free or repair the disk and restart"):
        orders.send("lost")
    life.disk.failing.clear()
    for verb in verbs(orders, message):
        with pytest.raises(leveret.JournalFailed):
            verb()
    life.opened.pop().close()
    assert "confirmed" in [message.body for message in life.open().queue("orders").receive(10)]


@pytest.mark.parametrize("call", CALLS)
def test_who_waits_is_woken(life: Life, call: str) -> None:
    broker = life.open()
    orders = broker.queue("orders")

    async def receive() -> None:
        await leveret.AsyncQueue(orders).receive(1, wait=1_000)

    waiting = [Waiting(lambda: orders.receive(1, wait=1_000)), Waiting(lambda: asyncio.run(receive()))]
    while orders.stats().waiters < 2:
        os.sched_yield()
    life.disk.failing[call] = errno.EIO
    together = threading.Barrier(8)

    def send() -> None:
        together.wait()
        broker.queue("others").send("x")

    waiting += [Waiting(send) for _ in range(8)]
    assert {type(each.ended()) for each in waiting} == {leveret.JournalFailed}


def test_tasks_that_send_are_told(life: Life) -> None:
    orders = life.open().queue("orders")
    life.disk.failing["datasync"] = errno.EIO

    async def send() -> list[Any]:
        return await asyncio.gather(
            *(leveret.AsyncQueue(orders).send(number) for number in range(20)), return_exceptions=True
        )

    assert {type(outcome) for outcome in asyncio.run(send())} == {leveret.JournalFailed}


def test_consumers_and_workers_can_be_closed_after_a_failure(life: Life) -> None:
    broker = life.open()
    orders = broker.queue("orders")
    orders.consume(lambda message: None)
    worker = broker.queue("others").worker(concurrency=2)(print)
    life.disk.failing["datasync"] = errno.EIO
    with pytest.raises(leveret.JournalFailed):
        orders.send("x")
    assert worker.join()
    assert isinstance(worker.failure, leveret.JournalFailed)
    broker.close()


def test_a_failure_while_acknowledgements_are_committed_by_themselves(life: Life) -> None:
    orders = life.open().queue("orders")
    orders.send("x")
    (message,) = orders.receive()
    life.disk.failing["datasync"] = errno.EIO
    message.ack()
    waiting = Waiting(lambda: orders.receive(1, wait=1_000))
    life.clock.advance(0.1)
    assert isinstance(waiting.ended(), leveret.JournalFailed)


@pytest.mark.parametrize("call", CALLS)
def test_by_default_the_process_ends_at_once_and_says_why(tmp_path: Path, call: str) -> None:
    with Child("tests.durability.failing_child", str(tmp_path), call) as child:
        said = child.rest()
        assert [line.split()[0] for line in said] == ["sent"]
        assert child.process.returncode == 70
        (complaint,) = child.complaints().splitlines()
    assert "leveret: the journal stopped" in complaint
    assert "restart" in complaint
    with leveret.open(str(tmp_path), spare_bytes=0, disk_free_min_bytes=0) as broker:
        assert broker.queue("orders").receive()[0].id == said[0].split()[1]
