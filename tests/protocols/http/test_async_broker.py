"""The broker as handlers use it: durable answers and long polls in the loop."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import pytest

import leveret
from leveret.core.errors import JournalFailed, QueueNotFound, TooMany
from leveret.protocols.http.async_broker import AsyncBroker
from leveret.runtime.durability import EARLY_COUNT, PendingAnswer
from leveret.runtime.outgoing import Outgoing
from tests.waiting import PATIENCE_S

SMALL: dict[str, Any] = {"spare_bytes": 0, "disk_free_min_bytes": 0, "on_failure": "raise", "blob_bytes": 1_000}
T = TypeVar("T")
Scenario = Callable[[AsyncBroker], Coroutine[Any, Any, Any]]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[leveret.Broker]:
    # Its time stands still: nothing goes to the disk before somebody asks for it.
    with leveret.open(str(tmp_path / "data"), clock=leveret.ManualClock(), **SMALL) as opened:
        yield opened


def run(broker: leveret.Broker, scenario: Scenario) -> Any:
    async def inside() -> Any:
        return await scenario(AsyncBroker(broker.runtime))

    return asyncio.run(inside())


async def value(given: T | Awaitable[T]) -> T:
    return await given if isinstance(given, Awaitable) else given


def bodies(messages: list[leveret.Message]) -> list[object]:
    return [message.body for message in messages]


def test_a_send_is_answered_when_it_is_on_the_disk(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")

    async def scenario(async_broker: AsyncBroker) -> None:
        waits = async_broker.send(orders, Outgoing(b"x"), lambda sent: f"sent {sent}")
        assert isinstance(waits, PendingAnswer)
        answer = await waits
        assert broker.runtime.store is not None
        assert broker.runtime.durable_batch >= broker.runtime.store.journal.pending - 1
        (message,) = orders.receive()
        assert answer == f"sent {message.id}"

    run(broker, scenario)


def test_sends_of_one_turn_share_frames(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")

    async def scenario(async_broker: AsyncBroker) -> None:
        await asyncio.gather(*(value(async_broker.send(orders, Outgoing(b"x"), str)) for _ in range(200)))

    assert (before := broker.stats().journal) is not None
    run(broker, scenario)
    assert (after := broker.stats().journal) is not None
    assert after.frames - before.frames < 100
    assert len(orders) == 200


def test_the_disk_begins_within_the_turn_when_many_wait(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")

    async def scenario(async_broker: AsyncBroker) -> None:
        store = broker.runtime.store
        assert store is not None
        written = threading.Event()
        store.commit.notify(store.journal.pending, lambda error: written.set())
        waits = [async_broker.send(orders, Outgoing(b"x"), str) for _ in range(EARLY_COUNT)]
        assert written.wait(PATIENCE_S)
        await asyncio.gather(*(value(each) for each in waits))

    run(broker, scenario)


def test_large_bodies_are_stored_in_another_thread(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    large = b"x" * 5_000

    async def scenario(async_broker: AsyncBroker) -> tuple[str, list[str | None]]:
        one = await value(async_broker.send(orders, Outgoing(large), str))
        return one, await value(async_broker.send_many(orders, [Outgoing(large), Outgoing(b"small")], list))

    one, many = run(broker, scenario)
    taken = orders.receive(3)
    assert [message.id for message in taken] == [one, *many]
    assert bodies(taken) == [large, large, b"small"]


def test_a_change_of_definitions_is_answered_when_it_is_durable(broker: leveret.Broker) -> None:
    async def scenario(async_broker: AsyncBroker) -> str:
        await value(async_broker.change(lambda core: core.declare_queue("/", "made", {})))
        return async_broker.queue("made").name

    assert run(broker, scenario) == "made"


def test_a_queue_that_is_not_there_is_refused(broker: leveret.Broker) -> None:
    async def scenario(async_broker: AsyncBroker) -> None:
        async_broker.queue("nothing")

    with pytest.raises(QueueNotFound, match="create it first"):
        run(broker, scenario)


def test_a_receive_that_finds_something_needs_no_future(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    orders.send_many([b"a", b"b", b"c"])

    async def scenario(async_broker: AsyncBroker) -> None:
        assert async_broker.receive(orders, bodies, 2, wait_s=PATIENCE_S) == [b"a", b"b"]
        assert async_broker.receive(orders, bodies, 2) == [b"c"]
        assert async_broker.receive(orders, bodies) == []

    run(broker, scenario)


@pytest.mark.parametrize("size", [900, 2_000])
def test_one_answer_has_so_many_bytes_or_one_message(
    broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr("leveret.protocols.http.async_broker.ANSWER_BYTES_MAX", int(3.5 * size))
    orders = broker.queue("orders")
    sent = [bytes([number]) * size for number in range(7)] + [b"x" * 10 * size, b"y"]
    orders.send_many(sent)

    async def scenario(async_broker: AsyncBroker) -> list[list[object]]:
        return [await value(async_broker.receive(orders, bodies, 10, wait_s=wait_s)) for wait_s in (0, 5, 0, 0, 0)]

    assert run(broker, scenario) == [sent[:3], sent[3:6], sent[6:7], sent[7:8], sent[8:]]
    assert [each.deliveries for each in orders.browse(state="leased")] == [1] * 9


def test_a_poll_has_so_many_bytes_too(broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret.protocols.http.async_broker.ANSWER_BYTES_MAX", 2_000)
    orders = broker.queue("orders")

    async def scenario(async_broker: AsyncBroker) -> list[object]:
        poll = async_broker.receive(orders, bodies, 10, wait_s=PATIENCE_S)
        orders.send_many([b"x" * 900] * 3)
        return await value(poll)

    assert len(run(broker, scenario)) == 2
    assert len(orders) == 1


def test_a_poll_is_woken_by_this_loop_and_by_other_threads(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")

    async def scenario(async_broker: AsyncBroker) -> None:
        for send in (lambda: orders.post(Outgoing(b"x")), lambda: asyncio.to_thread(orders.send, b"x")):
            poll = async_broker.receive(orders, bodies, wait_s=PATIENCE_S)
            assert isinstance(poll, asyncio.Future)
            await asyncio.gather(*([sent] if isinstance(sent := send(), Awaitable) else []))
            assert await poll == [b"x"]
        assert not async_broker.polls

    run(broker, scenario)
    assert orders.stats().waiters == 0


def test_a_poll_ends_with_its_time(broker: leveret.Broker) -> None:
    async def scenario(async_broker: AsyncBroker) -> Any:
        return await value(async_broker.receive(broker.queue("orders"), bodies, wait_s=0.01))

    assert run(broker, scenario) == []
    assert broker.queue("orders").stats().waiters == 0


def test_a_client_that_goes_leaves_the_message_to_the_next(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")

    async def scenario(async_broker: AsyncBroker) -> Any:
        gone, stays = (async_broker.receive(orders, bodies, wait_s=PATIENCE_S) for _ in range(2))
        assert isinstance(gone, asyncio.Future)
        orders.send(b"x")
        gone.cancel()
        return await value(stays)

    assert run(broker, scenario) == [b"x"]
    assert orders.stats().waiters == 0


def test_polls_are_limited_in_number(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")

    async def scenario(_: AsyncBroker) -> None:
        async_broker = AsyncBroker(broker.runtime, polls_max=2)
        polls = [async_broker.receive(orders, bodies, wait_s=PATIENCE_S) for _ in range(2)]
        with pytest.raises(TooMany, match="ask again without waiting"):
            async_broker.receive(orders, bodies, wait_s=PATIENCE_S)
        async_broker.close()
        assert [await value(poll) for poll in polls] == [[], []]

    run(broker, scenario)


def test_polls_are_looked_through_once_for_many_changes_of_rights(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")

    async def scenario(async_broker: AsyncBroker) -> None:
        polls = {
            user: async_broker.receive(orders, bodies, wait_s=PATIENCE_S, user=user) for user in ("ada", "bob", "eve")
        }
        with patch.object(async_broker.thread, "call", wraps=async_broker.thread.call) as call:
            for user in ("ada", "bob", "ada", "nobody"):
                async_broker.access_changed(user)
        assert call.call_count == 1
        assert [await value(polls[user]) for user in ("ada", "bob")] == [[], []]
        async_broker.access_changed(None)
        assert await value(polls["eve"]) == []

    run(broker, scenario)


def test_a_poll_for_a_queue_that_is_deleted_is_refused(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")

    async def scenario(async_broker: AsyncBroker) -> None:
        poll = async_broker.receive(orders, bodies, wait_s=PATIENCE_S)
        await async_broker.in_thread(orders.delete)
        with pytest.raises(QueueNotFound):
            await value(poll)

    run(broker, scenario)


def test_many_polls_get_one_message_each(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")

    async def scenario(async_broker: AsyncBroker) -> list[Any]:
        polls = [async_broker.receive(orders, bodies, wait_s=PATIENCE_S) for _ in range(1_000)]
        await async_broker.in_thread(lambda: orders.send_many([b"%d" % number for number in range(1_000)]))
        return await asyncio.gather(*(value(poll) for poll in polls))

    assert sorted(run(broker, scenario)) == sorted([[b"%d" % number] for number in range(1_000)])


def test_a_failed_journal_is_told_to_who_waits(broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = broker.queue("orders")
    store = broker.runtime.store
    assert store is not None

    async def scenario(async_broker: AsyncBroker) -> None:
        monkeypatch.setattr(store.commit, "_write", lambda frame: bool(store.commit.fail(OSError("gone"))) and False)
        with pytest.raises(JournalFailed):
            await value(async_broker.send(orders, Outgoing(b"x"), str))

    run(broker, scenario)


def test_a_pending_answer_tells_its_listener_once() -> None:
    told: list[str] = []
    pending = PendingAnswer("answer")
    pending.add_done_callback(lambda done: told.append(done.result()))
    pending.finish()
    pending.finish(JournalFailed("too late"))
    assert told == ["answer"]
    assert pending.exception() is None


def test_nobody_is_told_about_an_answer_that_was_cancelled() -> None:
    told: list[object] = []
    pending = PendingAnswer("answer")
    pending.add_done_callback(told.append)
    pending.cancel()
    pending.finish()
    assert (told, pending.cancelled()) == ([], True)


def test_a_task_that_ends_while_it_waits_for_the_disk(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")

    async def scenario(async_broker: AsyncBroker) -> None:
        first = asyncio.ensure_future(value(async_broker.send(orders, Outgoing(b"x"), str)))
        second = asyncio.ensure_future(value(async_broker.send(orders, Outgoing(b"y"), str)))
        await asyncio.sleep(0)
        first.cancel()
        assert await second
        assert first.cancelled()

    run(broker, scenario)


def test_a_listener_that_fails_does_not_hold_up_the_others(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")

    async def scenario(async_broker: AsyncBroker) -> None:
        reported: list[object] = []
        async_broker.loop.set_exception_handler(lambda loop, context: reported.append(context["exception"]))
        waits = [async_broker.send(orders, Outgoing(b"x"), str) for _ in range(2)]
        assert isinstance(waits[0], PendingAnswer)
        waits[0].add_done_callback(lambda done: 1 // 0)
        assert await value(waits[1])
        assert [type(each) for each in reported] == [ZeroDivisionError]

    run(broker, scenario)
