"""What opening a directory refuses, repairs and reports; and what each sync mode promises."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import leveret
from tests.durability.conftest import Life

KEY, OTHER_KEY = "11" * 32, "22" * 32


def segments(life: Life) -> list[Path]:
    return sorted(life.path.glob("seg-*.log"))


def fill(life: Life, count: int, **options: Any) -> list[str]:
    """Send messages, each in a frame of its own, and be killed."""
    orders = life.open(segment_bytes=1_024, **options).queue("orders")
    sent = [orders.send(f"message {number:03d}") for number in range(count)]
    life.kill()
    return sent


def test_a_directory_is_open_once_in_all_processes(life: Life) -> None:
    life.open()
    with pytest.raises(leveret.DataLocked, match="stop it, or give this one another directory"):
        life.open()
    code = f"import leveret\ntry: leveret.open({str(life.path)!r})\nexcept leveret.DataLocked: raise SystemExit(3)"
    ended = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, check=False)
    assert ended.returncode == 3


def test_what_a_newer_version_wrote_is_refused(life: Life) -> None:
    life.open().close()
    meta = life.path / "META"
    meta.write_text(json.dumps({**json.loads(meta.read_text()), "format": 99}))
    with pytest.raises(leveret.UnknownFormat, match="format 99"):
        life.open()


def test_a_wrong_key_is_named(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYS", KEY)
    life.open(encryption_key_env="KEYS").queue("orders").send("x")
    life.opened.pop().close()
    monkeypatch.setenv("KEYS", OTHER_KEY)
    with pytest.raises(leveret.WrongKey, match=r"needs the key with id [0-9a-f]{32}; given: [0-9a-f]{32}"):
        life.open(encryption_key_env="KEYS")
    monkeypatch.setenv("KEYS", f"{OTHER_KEY} {KEY}")
    assert life.open(encryption_key_env="KEYS").queue("orders").receive()[0].body == "x"


def damage(path: Path, body: bytes) -> None:
    """Change a byte of a message where it is stored."""
    data = bytearray(path.read_bytes())
    data[data.index(body)] ^= 0xFF
    path.write_bytes(data)


def test_damage_is_refused_and_salvage_reports_what_it_skipped(life: Life) -> None:
    sent = fill(life, 60)
    path = segments(life)[2]
    lost = next(number for number in range(60) if f"message {number:03d}".encode() in path.read_bytes())
    damage(path, f"message {lost:03d}".encode())
    with pytest.raises(leveret.DamagedJournal, match=rf"{path.name} is damaged at offset \d+.*salvage"):
        life.open()
    broker = life.open(salvage=True)
    report = broker.recovery
    assert report is not None
    assert (report.skipped_frames, report.skipped_messages, report.torn_bytes) == (1, 1, 0)
    assert report.skipped_bytes > len(f"message {lost:03d}")
    left = [number for number in range(60) if number != lost]
    found = broker.queue("orders").receive(100)
    assert [message.id for message in found] == [sent[number] for number in left]
    assert [message.body for message in found] == [f"message {number:03d}" for number in left]
    life.opened.pop().close()
    assert leveret.verify(path.parent) == []
    again = life.open().recovery
    assert again is not None
    assert (again.skipped_frames, again.from_checkpoint) == (0, True)
    life.opened.pop().close()
    later = f"message {lost + 1:03d}".encode()
    other = next(each for each in segments(life) if later in each.read_bytes())
    damage(other, later)
    assert [each.name for each in leveret.verify(path.parent)] == [other.name]


@pytest.mark.parametrize("at", [3, None], ids=["header", "missing"])
def test_what_salvage_has_skipped_is_no_damage_any_more(life: Life, at: int | None) -> None:
    fill(life, 60)
    path = segments(life)[2]
    if at is None:
        path.unlink()
    else:
        data = bytearray(path.read_bytes())
        data[at] ^= 0xFF
        path.write_bytes(data)
    assert path.name in [each.name for each in leveret.verify(path.parent)]
    life.open(salvage=True)
    life.opened.pop().close()
    assert leveret.verify(path.parent) == []
    life.open()


def test_messages_of_a_queue_whose_definition_was_damaged_are_kept(life: Life) -> None:
    fill(life, 60)
    damage(segments(life)[0], b"orders")
    with pytest.raises(leveret.DamagedJournal):
        life.open()
    broker = life.open(salvage=True)
    (queue,) = broker.queues()
    assert queue.name.startswith("leveret.recovered.")
    bodies = [f"message {number:03d}" for number in range(60)]
    assert [message.body for message in queue.browse(100)] == bodies
    queue.redrive(to=broker.queue("orders"))
    assert [message.body for message in broker.queue("orders").browse(100)] == bodies
    life.kill()
    assert [queue.name for queue in life.open().queues()] == [queue.name, "orders"]


def test_a_torn_tail_is_reported(life: Life) -> None:
    sent = fill(life, 5)
    last = segments(life)[-1]
    last.write_bytes(last.read_bytes() + b"LFRM torn")
    broker = life.open()
    assert broker.recovery is not None
    assert broker.recovery.torn_bytes == len(b"LFRM torn")
    assert broker.recovery.frames >= 5
    assert not broker.recovery.from_checkpoint
    assert [message.id for message in broker.queue("orders").receive(10)] == sent


def test_the_time_of_a_recovery_is_measured(life: Life) -> None:
    class Slow(leveret.ManualClock):
        def now_ms(self) -> int:
            self.advance(0.001)
            return super().now_ms()

    broker = life.open(clock=Slow())
    assert broker.recovery is not None
    assert broker.recovery.seconds > 0


def test_memory_has_nothing_to_recover() -> None:
    with leveret.open() as broker:
        assert broker.recovery is None


@pytest.mark.parametrize("sync", ["interval", "never"])
def test_a_flush_is_durable_whatever_the_mode(life: Life, sync: str) -> None:
    broker = life.open(sync=sync, interval_ms=1_000_000)
    orders = broker.queue("orders")
    before = life.disk.calls.count("datasync")
    orders.send("x")
    orders.receive()[0].ack()
    stats = broker.stats().journal
    assert stats is not None
    assert (stats.sync, life.disk.calls.count("datasync")) == (sync, before)
    broker.flush()
    assert life.disk.calls.count("datasync") == before + 1


@pytest.mark.parametrize("sync", ["always", "interval", "never"])
@pytest.mark.parametrize("end", ["close", "kill"])
def test_neither_closing_nor_killing_loses_what_was_confirmed(life: Life, sync: str, end: str) -> None:
    orders = life.open(sync=sync).queue("orders")
    sent = [orders.send(number) for number in range(20)]
    if end == "close":
        orders.receive()[0].ack()
        del sent[0]
        life.opened.pop().close()
    else:
        life.kill()
    assert [message.id for message in life.open().queue("orders").receive(100)] == sent
