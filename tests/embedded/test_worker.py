"""Workers settle by what their function does, keep leases, remember, and drain."""

import logging
import os
import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue
from types import FrameType

import pytest

import leveret
from leveret.embedded.worker import CONCURRENCY_MAX
from tests.waiting import PATIENCE_S

Reopen = Callable[[], leveret.Broker]


class Recorder:
    """A handler that writes down what it gets."""

    def __init__(self) -> None:
        self.bodies: SimpleQueue[object] = SimpleQueue()

    def __call__(self, message: leveret.Message) -> None:
        self.bodies.put(message.body)

    def next(self) -> object:
        return self.bodies.get(timeout=PATIENCE_S)


@pytest.mark.everywhere
def test_it_acknowledges_what_its_function_returned_from(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    seen = Recorder()
    worker = orders.worker(concurrency=2)(seen)
    orders.send_many(["a", "b"])
    assert {seen.next(), seen.next()} == {"a", "b"}
    assert worker.stop()
    assert orders.stats().acked == 2


@pytest.mark.everywhere
def test_it_gives_back_what_its_function_failed_on_and_logs_no_body(
    broker: leveret.Broker, caplog: pytest.LogCaptureFixture
) -> None:
    orders = broker.queue("orders", dead_letter="dlq", backoff="none")
    attempts = threading.Semaphore(0)

    @orders.worker(concurrency=1)
    def fail(message: leveret.Message) -> None:
        attempts.release()
        raise OSError("cannot")

    with caplog.at_level(logging.ERROR):
        orders.send("top secret")
        for _ in range(3):
            assert attempts.acquire(timeout=PATIENCE_S)
        fail.stop()
    assert broker.queue("dlq").receive()[0].headers["x-first-death-reason"] == "delivery_limit"
    assert "cannot" in caplog.text
    assert "top secret" not in caplog.text


@pytest.mark.everywhere
def test_reject_makes_a_dead_letter(broker: leveret.Broker) -> None:
    orders = broker.queue("orders", dead_letter="dlq")

    def refuse(message: leveret.Message) -> None:
        raise leveret.Reject

    worker = orders.worker(concurrency=1)(refuse)
    orders.send("bad")
    (dead,) = _received(broker.queue("dlq"))
    worker.stop()
    assert dead.headers["x-first-death-reason"] == "rejected"


@pytest.mark.everywhere
def test_a_function_may_settle_by_itself(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    seen = Recorder()

    @orders.worker(concurrency=1)
    def settle(message: leveret.Message) -> None:
        message.ack()
        seen(message)

    orders.send("x")
    assert seen.next() == "x"
    settle.stop()
    assert orders.stats().acked == 1


@pytest.mark.everywhere
def test_coroutines_run_side_by_side(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    together = threading.Barrier(2)

    @orders.worker(concurrency=2)
    async def meet(message: leveret.Message) -> None:
        import asyncio

        await asyncio.to_thread(together.wait, PATIENCE_S)

    orders.send_many(["a", "b"])
    while orders.stats().acked < 2:
        os.sched_yield()
    meet.stop()
    assert not together.broken


def test_long_work_keeps_its_lease(broker: leveret.Broker, clock: leveret.ManualClock) -> None:
    orders = broker.queue("orders", visibility_timeout=10)
    started, finish = threading.Event(), threading.Event()

    @orders.worker(concurrency=1)
    def work(message: leveret.Message) -> None:
        started.set()
        assert finish.wait(PATIENCE_S)

    orders.send("long")
    assert started.wait(PATIENCE_S)
    for _ in range(5):
        (leased,) = orders.browse(state="leased")
        clock.advance(5)
        while orders.browse(state="leased")[0].due_at == leased.due_at:
            os.sched_yield()
    finish.set()
    work.stop()
    stats = orders.stats()
    assert (stats.acked, stats.timed_out) == (1, 0)


@pytest.mark.everywhere
def test_an_idempotent_worker_does_not_repeat_itself(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    seen = Recorder()

    def overtaken(message: leveret.Message) -> None:
        seen(message)
        message.nack(delay=0)  # as if the lease had ended before the acknowledgement

    worker = orders.worker(concurrency=1, idempotent=True)(overtaken)
    orders.send("once")
    while orders.stats().acked == 0:
        os.sched_yield()
    worker.stop()
    assert seen.next() == "once"
    assert seen.bodies.empty()


def test_what_was_done_is_remembered_over_a_restart(reopen: Reopen, clock: leveret.ManualClock) -> None:
    orders = reopen().queue("orders", visibility_timeout=10)
    orders.send("once")
    seen = Recorder()

    def overtaken(message: leveret.Message) -> None:
        seen(message)
        message.nack(delay=1)  # as if the lease had ended before the acknowledgement

    worker = orders.worker(concurrency=1, idempotent=True)(overtaken)
    assert seen.next() == "once"
    worker.stop()
    orders = reopen().queue("orders")
    clock.advance(1)
    worker = orders.worker(concurrency=1, idempotent=True)(overtaken)
    while orders.stats().acked == 0:
        os.sched_yield()
    worker.stop()
    assert seen.bodies.empty()


@pytest.mark.everywhere
def test_another_name_has_another_memory(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    seen = Recorder()

    def overtaken(message: leveret.Message) -> None:
        seen(message)
        message.nack(delay=0)

    orders.send("x")
    for name in ("one", "two"):
        if orders.stats().ready == 0:
            orders.send("x")
        worker = orders.worker(concurrency=1, idempotent=True, name=name)(overtaken)
        assert seen.next() == "x"
        worker.stop()


@pytest.mark.everywhere
def test_stopping_finishes_what_is_at_hand(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    started, finish = threading.Event(), threading.Event()

    @orders.worker(concurrency=1)
    def work(message: leveret.Message) -> None:
        started.set()
        assert finish.wait(PATIENCE_S)

    orders.send_many(["at hand", "left"])
    assert started.wait(PATIENCE_S)
    assert not work.stop(timeout=0.01)
    finish.set()
    assert work.join()
    assert (orders.stats().acked, len(orders)) == (1, 1)


@pytest.mark.everywhere
def test_closing_the_broker_drains(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    started = threading.Event()
    finished: list[object] = []

    @orders.worker(concurrency=1)
    def work(message: leveret.Message) -> None:
        started.set()
        finished.append(message.body)

    orders.send("x")
    assert started.wait(PATIENCE_S)
    broker.close()
    assert finished == ["x"]


@pytest.mark.everywhere
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_run_returns(broker: leveret.Broker, number: signal.Signals) -> None:
    orders = broker.queue("orders")
    orders.send("x")
    before = signal.getsignal(number)
    done: list[object] = []

    def work(message: leveret.Message) -> None:
        os.kill(os.getpid(), number)
        done.append(message.body)

    orders.run(work, concurrency=1)
    assert done == ["x"]
    assert signal.getsignal(number) is before
    assert orders.stats().acked == 1


@pytest.mark.everywhere
def test_a_handler_that_would_interrupt_is_told_and_the_work_is_finished(
    broker: leveret.Broker, request: pytest.FixtureRequest
) -> None:
    """SparkContext installs such a handler: it cancels Spark's jobs, then interrupts."""
    told: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        told.append(number)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    orders = broker.queue("orders")
    orders.send("x")
    orders.run(lambda message: os.kill(os.getpid(), signal.SIGINT), concurrency=1)
    assert told == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is interrupt
    assert orders.stats().acked == 1


@pytest.mark.everywhere
def test_it_is_still_the_function(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")

    @orders.worker(concurrency=1)
    def double(message: leveret.Message) -> object:
        return message.body * 2

    double.stop()
    orders.send("ab")
    assert double(orders.receive()[0]) == "abab"


@pytest.mark.everywhere
@pytest.mark.parametrize("concurrency", [0, CONCURRENCY_MAX + 1, "8"])
def test_the_number_of_threads_is_limited(broker: leveret.Broker, concurrency: int) -> None:
    with pytest.raises(leveret.InvalidArgument, match="concurrency"):
        broker.queue("orders").worker(concurrency=concurrency)(print)


def _received(queue: leveret.Queue) -> list[leveret.Message]:
    """What comes, as soon as it comes."""
    while not (messages := queue.receive()):
        os.sched_yield()
    return messages
