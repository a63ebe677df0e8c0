"""A disk without room: sends are refused with advice, acknowledgements make room, and then it goes on."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

import leveret
from tests.conftest import need
from tests.durability.conftest import Life
from tests.waiting import PATIENCE_S

SPARE = 65_536


def test_sends_are_refused_acknowledgements_make_room_and_sends_work_again(life: Life) -> None:
    orders = life.open(segment_bytes=4_096, spare_bytes=SPARE).queue("orders")
    sent = orders.send_many([b"x" * 500 for _ in range(100)])
    life.disk.room_bytes = 100
    orders.send(b"the one that found no room took the spare")
    with pytest.raises(leveret.DiskFull, match="free space, or let consumers work"):
        orders.send(b"one too many")
    stats = orders.broker.stats().journal
    assert stats is not None
    assert stats.full
    taken = orders.receive(101)
    assert [message.id for message in taken[:100]] == sent
    orders.ack_many(taken)
    orders.broker.flush()
    life.disk.room_bytes += 2 * SPARE
    life.until(lambda: not journal_is_full(orders.broker))
    orders.send(b"room again")
    life.kill()
    assert [message.data for message in life.open().queue("orders").receive(10)] == [b"room again"]


def journal_is_full(broker: leveret.Broker) -> bool:
    stats = broker.stats().journal
    return stats is not None and stats.full


def test_without_room_for_the_spare_it_opens_full_and_recovers_by_itself(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    life.open().queue("orders").send("x")
    life.opened.pop().close()
    made = life.disk_of

    def full_disk(path: str) -> object:
        disk = made(path)
        disk.failing["allocate"] = errno.ENOSPC
        return disk

    monkeypatch.setattr("leveret.runtime.storage.Disk", full_disk)
    orders = life.open(spare_bytes=SPARE).queue("orders")
    with pytest.raises(leveret.DiskFull):
        orders.send("y")
    life.disk.failing.clear()
    life.until(lambda: not journal_is_full(orders.broker))
    orders.send("y")
    assert [message.body for message in orders.receive(2)] == ["x", "y"]


def test_large_bodies_are_refused_too_and_leave_nothing(life: Life) -> None:
    orders = life.open(spare_bytes=SPARE).queue("orders")
    life.disk.room_bytes = 0
    orders.send(b"takes the spare")
    with pytest.raises(leveret.DiskFull):
        orders.send(b"x" * 300_000)
    assert list((life.path / "blobs").iterdir()) == []


CHILD = """
import sys
import leveret

options = {"spare_bytes": 1 << 18, "disk_free_min_bytes": 0, "segment_bytes": 1 << 16, "on_failure": "raise"}
with leveret.open(sys.argv[1], **options) as broker:
    orders = broker.queue("orders")
    sent = 0
    try:
        while True:
            orders.send(b"x" * 10_000)
            sent += 1
    except leveret.DiskFull:
        pass
    assert sent > 100, sent
    try:
        orders.send(b"x" * 300_000)
    except leveret.DiskFull:
        pass
    else:
        raise AssertionError("a blob found room")
    for _ in range(sent):
        orders.receive()[0].ack()
    broker.flush()
    sent = None
    while sent is None:
        try:
            sent = orders.send(b"again")
        except leveret.DiskFull:
            pass
with leveret.open(sys.argv[1], **options) as broker:
    (message,) = broker.queue("orders").receive(10)
    assert message.id == sent
"""


def test_a_real_file_system_that_is_full(tmp_path: Path) -> None:
    mount = f'mount -t tmpfs -o size=4m tmpfs "{tmp_path}" && exec "$@"'
    isolated = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]
    try:
        allowed = subprocess.run([*isolated, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        allowed = False
    need(allowed, "a tmpfs that a user may mount: `unshare --user --map-root-user --mount` is refused")
    ended = subprocess.run(
        [*isolated, sys.executable, "-c", CHILD, str(tmp_path)],
        env={"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
