"""Workers in real processes: signals drain all of them, long work keeps its lease, a kill repeats next to nothing."""

import signal
import threading
from collections import Counter
from pathlib import Path

import pytest

import leveret
from leveret.runtime.leases import Extender, Leasable
from tests.durability.children import Child
from tests.waiting import PATIENCE_S, wait_until


def left(path: Path, queue: str) -> list[object]:
    """What is in a queue after its process has ended; nothing may be leased or back off."""
    with leveret.open(str(path), spare_bytes=0, disk_free_min_bytes=0) as broker:
        found = broker.queue(queue).receive(1_000)
        assert [message.deliveries for message in found] == [1] * len(found), "it was delivered before"
        return [message.body for message in found]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_every_worker_and_the_process_ends_well(tmp_path: Path, number: signal.Signals) -> None:
    with Child("tests.durability.working_child", "two", str(tmp_path)) as child:
        assert {child.line(), child.line()} == {"begins one first", "begins two first"}
        child.process.send_signal(number)
        said = child.rest()
        assert said == ["ends one first", "ends two first", "closed"]
        assert child.process.returncode == 0, child.complaints()
    assert left(tmp_path, "one") == ["second"]
    assert left(tmp_path, "two") == ["second"]


def test_a_signal_to_a_process_that_waits_for_something_else(tmp_path: Path) -> None:
    with Child("tests.durability.working_child", "unattended", str(tmp_path)) as child:
        assert child.line() == "begins first"
        child.process.send_signal(signal.SIGTERM)
        assert child.rest() == ["ends first"]
        assert child.process.returncode == -signal.SIGTERM
    assert left(tmp_path, "orders") == ["second"]


def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    with Child("tests.durability.working_child", "stubborn", str(tmp_path)) as child:
        assert child.line() == "begins first"
        while child.process.poll() is None:
            child.process.send_signal(signal.SIGTERM)
        assert child.rest() == []


def test_work_longer_than_its_lease_is_not_given_to_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = leveret.ManualClock()
    extended, extend = threading.Semaphore(0), Extender._extend

    def noted(extender: Extender, message: Leasable, now_ms: int) -> None:
        extend(extender, message, now_ms)
        extended.release()

    monkeypatch.setattr(Extender, "_extend", noted)
    with leveret.open(str(tmp_path), clock=clock, spare_bytes=0, disk_free_min_bytes=0) as broker:
        orders = broker.queue("orders", visibility_timeout=2)
        seen: list[object] = []
        begun, may_end = threading.Event(), threading.Event()

        @orders.worker(concurrency=4)
        def work(message: leveret.Message) -> None:
            seen.append(message.body)
            begun.set()
            assert may_end.wait(PATIENCE_S)

        orders.send("long")
        assert begun.wait(PATIENCE_S)
        for _ in range(4):  # twice as long as the lease
            clock.advance(1)
            assert extended.acquire(timeout=PATIENCE_S)
        may_end.set()
        wait_until(lambda: orders.stats().acked)
        work.stop()
        stats = orders.stats()
        assert (seen, stats.acked, stats.timed_out) == (["long"], 1, 0)


def test_a_killed_worker_repeats_at_most_the_last_message(tmp_path: Path) -> None:
    count, rounds = 300, 4
    with leveret.open(str(tmp_path), spare_bytes=0, disk_free_min_bytes=0) as broker:
        broker.queue("orders").send_many(range(count))
    handled = 0
    for number in range(rounds):
        with Child("tests.durability.working_child", "remembering", str(tmp_path)) as child:
            for _ in range(20 + 10 * number):
                assert child.line().startswith("handled")
            handled += 20 + 10 * number + len(child.kill())
    effects = Counter((tmp_path / "effects.txt").read_text().split())
    repeated = sum(times - 1 for times in effects.values())
    print(f"{rounds} kills, {handled} handled, {repeated} of them a second time")
    assert repeated <= rounds
    remaining = left(tmp_path, "orders")
    assert len(set(effects) | {str(body) for body in remaining}) == count
