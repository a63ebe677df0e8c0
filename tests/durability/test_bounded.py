"""The directory stays bounded, and what leaves it is in the archive first."""

import json
import os
from pathlib import Path
from typing import Any

import leveret
from tests.durability.conftest import Life
from tests.waiting import wait_until

MIB = 1 << 20
TOTAL_BYTES = 300 * MIB
BODY_BYTES = 64 * 1024
BATCH = 16
SEGMENT_BYTES = 4 * MIB
BOUND_BYTES = 48 * MIB


def use_up(orders: leveret.Queue, count: int) -> None:
    for number in range(count):
        orders.send(b"body %03d " % number + b"x" * 700)
        orders.receive()[0].ack()


def test_settled_segments_are_in_the_archive_before_they_go(life: Life, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    orders = life.open(segment_bytes=4_096, archive_dir=str(archive)).queue("orders")
    use_up(orders, 40)
    life.until(lambda: len(list(life.path.glob("seg-*.log"))) <= 2)
    life.kill()  # from here on nothing moves
    archived = sorted(archive.glob("seg-*.log"))
    assert len(archived) > 5
    assert [int(path.stem[4:]) for path in archived] == list(range(1, len(archived) + 1))
    names = [json.loads(path.with_suffix(".names.json").read_text()) for path in archived]
    assert all("orders" in each.values() for each in names)
    kept = archived + sorted(life.path.glob("seg-*.log"))
    stored = b"".join(path.read_bytes() for path in {path.name: path for path in kept}.values())
    assert all(b"body %03d" % number in stored for number in range(40))
    assert life.open().queue("orders").receive(10) == []


def test_an_archive_that_fails_keeps_the_log_and_says_so(life: Life, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.write_text("not a directory")
    broker = life.open(segment_bytes=4_096, archive_dir=str(archive))
    orders = broker.queue("orders")
    use_up(orders, 20)

    def problem() -> str | None:
        stats = broker.stats().journal
        assert stats is not None
        return stats.archive_problem

    life.until(problem)
    assert str(archive) in str(problem())
    kept = sorted(life.path.glob("seg-*.log"))
    archive.unlink()
    life.until(lambda: len(list(life.path.glob("seg-*.log"))) <= 2)
    assert problem() is None
    assert {path.name for path in kept[:-2]} <= {path.name for path in archive.iterdir()}


def log_bytes(broker: leveret.Broker) -> int:
    stats = broker.stats().journal
    assert stats is not None
    return stats.log_bytes


def test_hundreds_of_megabytes_pass_through_a_small_directory(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "segment_bytes": SEGMENT_BYTES,
        "checkpoint_bytes": 16 * MIB,
        "spare_bytes": 0,
        "disk_free_min_bytes": 0,
    }
    body = os.urandom(BODY_BYTES)
    with leveret.open(str(tmp_path), **options) as broker:
        orders = broker.queue("orders")
        kept = orders.send("kept for ever", priority=0)
        orders.receive()
        for _ in range(TOTAL_BYTES // (BATCH * BODY_BYTES)):
            orders.send_many([body] * BATCH)
            orders.ack_many(orders.receive(BATCH))
            wait_until(lambda: log_bytes(broker) < BOUND_BYTES)
    with leveret.open(str(tmp_path), **options) as broker:
        assert [message.id for message in broker.queue("orders").receive(10)] == [kept]
