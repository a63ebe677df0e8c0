"""A broker on files: what is durable when, and what happens to bodies that are large."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.clock import NEVER_MS
from leveret.storage.disk import Disk
from tests.embedded.conftest import SMALL, Calls
from tests.waiting import PATIENCE_S, wait_until

Reopen = Callable[[], leveret.Broker]


def blobs(tmp_path: Path) -> list[str]:
    return sorted(os.listdir(tmp_path / "data" / "blobs"))


def test_a_directory_is_open_once(tmp_path: Path, reopen: Reopen) -> None:
    reopen()
    with pytest.raises(leveret.JournalError, match="is open in process"):
        leveret.open(str(tmp_path / "data"), **SMALL)


def test_threads_share_syncs(tmp_path: Path, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    free, datasync = threading.Event(), Disk.datasync

    def slow(disk: Disk, fd: int) -> None:
        assert free.wait(PATIENCE_S)
        datasync(disk, fd)

    with leveret.open(str(tmp_path), **SMALL) as broker:
        orders = broker.queue("orders")
        before = broker.stats().journal
        monkeypatch.setattr(Disk, "datasync", slow)
        sent = [calls.start(orders.send, b"x") for _ in range(64)]
        wait_until(lambda: len(orders) == 64)
        assert not any(each.done() for each in sent)
        free.set()
        wait(sent)
        after = broker.stats().journal
        assert before is not None
        assert after is not None
        assert after.syncs - before.syncs <= 3


def test_a_segment_that_empties_by_itself_is_looked_at_again(tmp_path: Path) -> None:
    with leveret.open(tmp_path, segment_bytes=4096, spare_bytes=0, disk_free_min_bytes=0) as broker:
        runtime, orders = broker.runtime, broker.queue("orders")
        runtime.housekeeper.stop()
        for _ in range(100):
            orders.send(bytes(100))
        runtime.housekeeper.step()
        store = runtime.store
        assert store is not None
        first = store.meta.oldest
        for message in orders.receive(12):
            message.ack()
        assert runtime.housekeeper.step() != NEVER_MS, "nobody has to write for that"
        assert store.meta.oldest == first
        runtime.housekeeper.step()
        assert store.meta.oldest > first


def test_acknowledgements_are_durable_after_a_flush(tmp_path: Path, reopen: Reopen) -> None:
    broker = reopen()
    orders = broker.queue("orders")
    orders.send_many(["done", "left"])
    orders.receive()[0].ack()
    broker.flush()
    assert broker.runtime.store is not None
    broker.runtime.store.abandon()  # as a killed process does
    with leveret.open(str(tmp_path / "data"), clock=broker.runtime.clock, **SMALL) as again:
        assert [message.body for message in again.queue("orders").receive(10)] == ["left"]
    broker.runtime.store = None  # its directory has another owner now


def test_acknowledgements_become_durable_by_themselves(
    tmp_path: Path, reopen: Reopen, clock: leveret.ManualClock
) -> None:
    broker = reopen()
    orders = broker.queue("orders")
    orders.send("x")
    orders.receive()[0].ack()
    store = broker.runtime.store
    assert store is not None
    clock.advance(0.05)
    while not store.journal.idle:
        os.sched_yield()
    assert not store.journal.dirty


def test_encrypted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYS", "11" * 32)
    options: dict[str, Any] = {**SMALL, "encryption_key_env": "KEYS"}
    with leveret.open(str(tmp_path), **options) as broker:
        broker.queue("orders").send("a very secret body")
        broker.queue("orders").send("a very secret body" * 20_000)
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"very secret" not in stored
    with leveret.open(str(tmp_path), **options) as broker:
        small, large = broker.queue("orders").receive(2)
        assert (small.body, len(large.data)) == ("a very secret body", 360_000)
    with pytest.raises(leveret.JournalError, match="needs the key"):
        leveret.open(str(tmp_path), **SMALL)


def test_a_large_body_is_kept_outside_of_the_log(tmp_path: Path, reopen: Reopen) -> None:
    body = "x" * 300_000
    reopen().queue("orders").send(body, headers={"a": 1})
    assert len(blobs(tmp_path)) == 1
    orders = reopen().queue("orders")
    (message,) = orders.receive()
    assert (message.body, message.headers) == (body, {"a": 1})


def test_a_large_body_goes_with_its_last_message(tmp_path: Path, reopen: Reopen, clock: leveret.ManualClock) -> None:
    broker = reopen()
    orders = broker.queue("orders", dead_letter="dlq")
    orders.send_many([b"x" * 300_000])
    orders.receive()[0].reject()
    clock.advance(2)
    (dead,) = broker.queue("dlq").receive()
    assert len(dead.data) == 300_000
    broker.queue("dlq").ack_many([dead])
    while blobs(tmp_path):
        clock.advance(1)
        os.sched_yield()


def test_blobs_without_a_message_are_swept_at_the_start(tmp_path: Path, reopen: Reopen) -> None:
    orders = reopen().queue("orders")
    orders.send_many([b"x" * 300_000, b"y" * 300_000])
    orders.purge()
    orders.send(b"z" * 300_000)
    kept = reopen().queue("orders")
    assert len(blobs(tmp_path)) == 1
    assert kept.receive()[0].data[:1] == b"z"


def test_large_bodies_of_an_exchange_and_of_memory(broker: leveret.Broker, reopen: Reopen) -> None:
    for each in (broker, reopen()):
        each.exchange("events", "fanout").bind(each.queue("orders"))
        each.exchange("events").publish("", b"x" * 300_000)
        assert len(each.queue("orders").receive()[0].data) == 300_000


def test_a_queue_that_is_not_durable_is_gone_after_a_restart(reopen: Reopen) -> None:
    reopen().queue("passing", durable=False).send(b"x" * 300_000)
    assert reopen().queues() == []


def test_old_segments_are_compacted_away(tmp_path: Path, clock: leveret.ManualClock) -> None:
    with leveret.open(str(tmp_path), clock=clock, segment_bytes=4096, **SMALL) as broker:
        orders = broker.queue("orders")
        for _ in range(50):
            orders.send(b"x" * 1000)
            orders.receive()[0].ack()
        store = broker.runtime.store
        assert store is not None
        while len(store.sizes()) > 2:
            clock.advance(1)
            os.sched_yield()
        assert store.meta.oldest > 5


def test_closing_twice_is_no_error_and_everything_else_is(reopen: Reopen) -> None:
    broker = reopen()
    orders = broker.queue("orders")
    orders.send("x")
    (message,) = orders.receive()
    broker.close()
    broker.close()
    for verb in (lambda: orders.send("y"), orders.receive, message.ack, broker.queues, orders.browse, broker.stats):
        with pytest.raises(leveret.BrokerClosed):
            verb()


def test_a_directory_is_let_go_when_its_blobs_cannot_be_read(tmp_path: Path, reopen: Reopen) -> None:
    reopen().close()
    (tmp_path / "data" / "blobs").rmdir()
    (tmp_path / "data" / "blobs").write_text("in the way")
    with pytest.raises(OSError, match="blobs"):
        leveret.open(str(tmp_path / "data"), **SMALL)
    (tmp_path / "data" / "blobs").unlink()
    assert reopen().queues() == []


def test_a_verb_that_fails_before_it_begins_does_not_keep_the_lock() -> None:
    class BrokenClock(leveret.ManualClock):
        broken = False

        def now_ms(self) -> int:
            if self.broken:
                raise OSError("no time")
            return super().now_ms()

    clock = BrokenClock()
    with leveret.open(clock=clock) as broker:
        orders = broker.queue("orders")
        clock.broken = True
        with pytest.raises(OSError, match="no time"):
            orders.receive()
        clock.broken = False
        assert orders.receive() == []
