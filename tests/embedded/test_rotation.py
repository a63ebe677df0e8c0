"""Rotation of the encryption key: afterwards nothing needs the old one, and nothing was lost on the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.core.errors import InvalidArgument, WrongKey
from leveret.ingest.staging import staged_keys
from leveret.operations import journal
from leveret.runtime.key_rotation import OtherKeys, RotationProgress, as_facts
from leveret.storage.disk import Disk
from leveret.storage.encryption import MasterKeys
from leveret.storage.journal.files.meta import read_meta
from tests.storage.journal.old_store import EVENTS, KEY, OPTIONS, ORDERS, key_file, unpacked
from tests.waiting import wait_until

OLD, NEW = b"o" * 32, b"n" * 32


def rotated(broker: leveret.Broker, other_keys: OtherKeys = dict) -> RotationProgress:
    """Rotate the key of a broker, and wait for the end of that."""
    with broker.runtime:
        found = broker.runtime.housekeeper.rotate_key(other_keys)
    wait_until(lambda: found.progress.state != "running")
    return found.progress


def contents(broker: leveret.Broker) -> tuple[list[bytes], list[bytes]]:
    """What is in the queue and the stream."""
    records = broker.stream("events").read(offset="first", max_records=10_000)
    return [each.data for each in broker.queue("orders").browse(10_000)], [each.data for each in records]


def filled(broker: leveret.Broker) -> tuple[list[bytes], list[bytes]]:
    """Messages, some of them large or settled, and records in several segments."""
    queue, stream = broker.queue("orders"), broker.stream("events", segment_bytes=1_024)
    for number in range(40):
        queue.send(b"order %d " % number + b"x" * 300)
        stream.send(b"event %d " % number + b"y" * 100)
    queue.send(b"large " + b"z" * 5_000)
    queue.ack_many(queue.receive(7))
    return contents(broker)


def mentions(place: Path, key: bytes) -> list[str]:
    """The files that have the id of a key in them."""
    key_id = MasterKeys(key).writing
    files = [path for path in place.rglob("*") if path.is_file() and path.parent.name != "staging"]
    return sorted(
        path.name for path in files if key_id in path.read_bytes() or key_id.hex().encode() in path.read_bytes()
    )


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., leveret.Broker]:
    """Opens the store of a test with keys."""

    def open_store(*keys: bytes, **options: Any) -> leveret.Broker:
        named = {"encryption_key_file": key_file(tmp_path / "keys", *keys)} if keys else {}
        return leveret.open(tmp_path / "store", **{**OPTIONS, **named, **options})

    return open_store


def test_after_a_rotation_nothing_needs_the_old_key(opened: Callable[..., leveret.Broker], tmp_path: Path) -> None:
    place = tmp_path / "store"
    with opened(OLD) as broker:
        expected = filled(broker)
    assert len(mentions(place, OLD)) > 5
    with opened(NEW, OLD) as broker:
        progress = rotated(broker)
        assert contents(broker) == expected
    old, new = MasterKeys(OLD).writing.hex(), MasterKeys(NEW).writing.hex()
    assert (progress.state, progress.left, progress.removable, progress.needed) == ("done", 0, [old], {})
    assert progress.total > 5
    assert read_meta(Disk(place)).keys == (new,)
    assert mentions(place, OLD) == []
    with opened(NEW) as broker:
        assert contents(broker) == expected
        broker.queue("orders").send(b"more")
        broker.stream("events").send(b"more")
        assert [len(each) for each in contents(broker)] == [len(each) + 1 for each in expected]


def test_what_was_not_encrypted_is_encrypted(opened: Callable[..., leveret.Broker], tmp_path: Path) -> None:
    with opened() as broker:
        expected = filled(broker)
    with opened(NEW) as broker:
        assert rotated(broker).state == "done"
        assert contents(broker) == expected
    files = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert [
        path.name for path in files for text in (b"order 2", b"event 2", b"large z") if text in path.read_bytes()
    ] == []


def test_a_store_of_an_older_version_is_rotated(opened: Callable[..., leveret.Broker], tmp_path: Path) -> None:
    place = unpacked(tmp_path / "store")
    staged = next((place / "staging").iterdir())
    expected = [each.encode() for each in ORDERS], [each.encode() for each in EVENTS]
    with opened(NEW, KEY) as broker:
        progress = rotated(broker, lambda: staged_keys(Disk(place / "staging")))
        assert (progress.state, progress.needed) == ("done", {MasterKeys(KEY).writing.hex(): "1 staged pieces"})
        assert progress.removable == []
        assert "still needed by 1 staged pieces" in journal.told(as_facts(progress))["summary"]
        assert contents(broker) == expected
    with pytest.raises(WrongKey, match=MasterKeys(KEY).writing.hex()):
        opened(NEW)
    staged.unlink()
    with opened(NEW, KEY) as broker:
        progress = rotated(broker, lambda: staged_keys(Disk(place / "staging")))
        assert progress.removable == [MasterKeys(KEY).writing.hex()]
    assert mentions(place, KEY) == []
    with opened(NEW) as broker:
        assert contents(broker) == expected


def test_a_rotation_by_the_same_key_changes_the_format(opened: Callable[..., leveret.Broker], tmp_path: Path) -> None:
    unpacked(tmp_path / "store")
    with opened(KEY) as broker:
        progress = rotated(broker)
        assert (progress.state, progress.total > 5, progress.removable) == ("done", True, [])
        again = rotated(broker)
        assert (again.state, again.segments, again.stream_segments) == ("done", 0, 0)


def test_archived_segments_need_the_key_that_they_were_written_by(
    opened: Callable[..., leveret.Broker], tmp_path: Path
) -> None:
    with opened(OLD) as broker:
        filled(broker)
    with opened(NEW, OLD, archive_dir=str(tmp_path / "archive")) as broker:
        progress = rotated(broker)
    old = MasterKeys(OLD).writing.hex()
    assert progress.archived[old] > 3
    assert f"segments in the archive need key {old}" in journal.told(as_facts(progress))["summary"]


def test_a_rotation_that_finds_no_room_says_so(opened: Callable[..., leveret.Broker]) -> None:
    with opened(OLD) as broker:
        filled(broker)
    with opened(NEW, OLD, disk_free_min_bytes=1 << 60) as broker:
        store = broker.runtime.store
        assert store is not None
        store.journal.refuse_publishes(True)
        progress = rotated(broker)
        assert (progress.state, "free space" in progress.problem) == ("failed", True)
        assert "No key may be removed" in journal.told(as_facts(progress))["summary"]
        assert store.meta.keys == (MasterKeys(NEW).writing.hex(), MasterKeys(OLD).writing.hex())
    with opened(NEW, OLD) as broker:
        assert rotated(broker).state == "done"


def test_messages_and_readers_go_on_meanwhile(opened: Callable[..., leveret.Broker]) -> None:
    with opened(OLD) as broker:
        messages, records = filled(broker)
    with opened(NEW, OLD) as broker:
        with broker.stream("events").reader(0, "first") as reader:
            seen = [each.data for each in reader.read(3)]
            with broker.runtime:
                found = broker.runtime.housekeeper.rotate_key(dict)
            sent = 0
            while found.progress.state == "running" or sent < 5:
                broker.queue("orders").send(b"meanwhile %d" % sent)
                broker.stream("events").send(b"meanwhile %d" % sent)
                sent += 1
                assert sent < 10_000
            while rest := reader.read(100):
                seen += [each.data for each in rest]
        assert found.progress.state == "done"
        late = [b"meanwhile %d" % number for number in range(sent)]
        assert seen == [*records, *late]
        assert contents(broker) == ([*messages, *late], [*records, *late])


def test_a_broker_without_keys_refuses(opened: Callable[..., leveret.Broker]) -> None:
    for broker in (opened(), leveret.open()):
        with broker, pytest.raises(InvalidArgument, match="encryption_key_file"):
            rotated(broker)


def test_a_store_in_postgresql_is_rotated_but_for_its_streams(store_url: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"segment_bytes": 4_096, "blob_bytes": 1_000, "on_failure": "raise"}
    keys = key_file(tmp_path / "keys", OLD)
    with leveret.open(store_url, encryption_key_file=keys, **options) as broker:
        expected = filled(broker)
    key_file(tmp_path / "keys", NEW, OLD)
    with leveret.open(store_url, encryption_key_file=keys, **options) as broker:
        progress = rotated(broker)
        old = MasterKeys(OLD).writing.hex()
        assert (progress.state, list(progress.needed)) == ("done", [old])
        assert "segments of streams in PostgreSQL" in progress.needed[old]
        assert "segments of history" in progress.needed[old]
        assert contents(broker) == expected
    with leveret.open(store_url, encryption_key_file=keys, history_bytes=0, **options) as broker:
        broker.stream("events").delete()
        progress = rotated(broker)
        assert (progress.needed, progress.removable) == ({}, [old])
    key_file(tmp_path / "keys", NEW)
    with leveret.open(store_url, encryption_key_file=keys, **options) as broker:
        assert [each.data for each in broker.queue("orders").browse(10_000)] == expected[0]
    key_file(tmp_path / "keys", OLD)
    with pytest.raises(WrongKey, match=MasterKeys(NEW).writing.hex()):
        leveret.open(store_url, encryption_key_file=keys, **options)


def test_the_shards_of_a_cluster_are_told_as_one() -> None:
    rows = [
        {**as_facts(RotationProgress("done", "new", removable=["a", "b"])), "archived": {"a": 2}},
        as_facts(RotationProgress("done", "new", needed={"a": "1 staged pieces"}, removable=["b"], archived={"a": 1})),
    ]
    found = journal.merged(rows)
    assert (found["state"], found["removable"], found["archived"]) == ("done", ["b"], {"a": 3})
    running = journal.merged([*rows, as_facts(RotationProgress("running", "new", segments=3, total=9))])
    assert (running["state"], running["summary"]) == ("running", "3 of 9 objects are left to be encrypted by key new")
    failed = journal.merged([*rows, as_facts(RotationProgress("failed", "new", problem="no room"))])
    assert (failed["state"], "no room" in failed["summary"]) == ("failed", True)
