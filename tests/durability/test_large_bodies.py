"""Large bodies beside the log: shared, deleted after the last of their messages, swept after a crash, encrypted."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import leveret
from tests.durability.children import Child
from tests.durability.conftest import Life
from tests.durability.s3 import Bucket, s3

LARGE = b"x" * 300_000


class Place(NamedTuple):
    """Where blobs are kept: the option that says so, and what lists them."""

    url: str | None
    blobs: Callable[[], list[Any]]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """An S3 server that obstore finds by itself."""
    with s3() as server:
        for name, value in server.environ.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture(params=["directory", "file URL", "s3"])
def place(request: pytest.FixtureRequest, bucket: Bucket, life: Life, tmp_path: Path) -> Place:
    if request.param == "directory":
        return Place(None, lambda: list((life.path / "blobs").iterdir()))
    if request.param == "s3":
        return Place("s3://bucket/large", lambda: list(bucket.objects))
    store = tmp_path / "store"
    return Place(store.as_uri(), lambda: [path for path in store.rglob("*") if path.is_file()])


def test_a_body_is_shared_and_goes_with_the_last_message(place: Place, life: Life) -> None:
    broker = life.open(blobs=place.url)
    events = broker.exchange("events", "fanout")
    for name in ("one", "two"):
        events.bind(broker.queue(name, dead_letter="dlq"))
    events.publish("", LARGE)
    assert len(place.blobs()) == 1
    broker.queue("one").receive()[0].ack()
    broker.queue("two").receive()[0].reject()
    broker.flush()
    life.kill()
    broker = life.open(blobs=place.url)
    (dead,) = broker.queue("dlq").receive()
    assert dead.data == LARGE
    assert len(place.blobs()) == 1
    dead.ack()
    life.until(lambda: len(place.blobs()) == 0)


def test_two_brokers_in_one_store_leave_each_other_alone(life: Life, place: Place, tmp_path: Path) -> None:
    life.open(blobs=place.url).queue("orders").send(LARGE)
    with leveret.open(str(tmp_path / "other"), blobs=place.url, spare_bytes=0, disk_free_min_bytes=0) as other:
        other.queue("orders").send(LARGE)
    life.kill()
    assert life.open(blobs=place.url).queue("orders").receive()[0].data == LARGE
    with leveret.open(str(tmp_path / "other"), blobs=place.url, spare_bytes=0, disk_free_min_bytes=0) as other:
        assert other.queue("orders").receive()[0].data == LARGE


def test_what_no_queue_took_is_deleted(place: Place, life: Life) -> None:
    broker = life.open(blobs=place.url)
    orders = broker.queue("orders", max_length=2, overflow="reject-publish", dedup_window=60)
    sent = orders.send(LARGE, dedup_id="once")
    assert orders.send(LARGE, dedup_id="once") == sent
    orders.send("small")
    with pytest.raises(leveret.QueueFull):
        orders.send(LARGE)
    assert broker.exchange("events", "topic").publish("nobody.listens", LARGE) is None
    life.until(lambda: len(place.blobs()) == 1)
    assert orders.receive()[0].data == LARGE


def test_a_store_that_fails_harms_nobody_else(bucket: Bucket, life: Life) -> None:
    orders = life.open(blobs="s3://bucket").queue("orders")
    orders.send(LARGE)
    bucket.broken = True
    with pytest.raises(leveret.BlobStoreFailed, match=r"did not store a body.*try again"):
        orders.send(LARGE)
    orders.send("small")
    large, small = orders.receive(2)
    with pytest.raises(leveret.BlobStoreFailed, match="did not read a body"):
        assert large.data
    assert small.body == "small"
    orders.ack_many([large, small])
    refused = bucket.refused
    life.until(lambda: bucket.refused > refused)  # to delete
    bucket.broken = False
    life.until(lambda: not bucket.objects)


def test_a_broker_opens_without_its_store_and_forgets_nothing(bucket: Bucket, life: Life) -> None:
    life.open(blobs="s3://bucket").queue("orders").send(LARGE)
    life.kill()
    bucket.broken = True
    orders = life.open(blobs="s3://bucket").queue("orders")
    orders.send("small")
    bucket.broken = False
    large, small = orders.receive(2)
    assert (large.data, small.body) == (LARGE, "small")
    orders.ack_many([large, small])
    life.until(lambda: not bucket.objects)


def test_an_orphan_in_a_bucket_is_swept(bucket: Bucket, life: Life) -> None:
    life.open(blobs="s3://bucket/large").queue("orders").send(LARGE)
    (path,) = bucket.objects
    life.kill()
    bucket.objects[path.rpartition("/")[0] + "/20260131-" + "0" * 32] = LARGE
    life.open(blobs="s3://bucket/large")
    assert list(bucket.objects) == [path]


def test_an_orphan_of_a_killed_process_is_swept(life: Life) -> None:
    with Child("tests.durability.orphan_child", str(life.path)) as child:
        sent = child.line().split()[1]
        assert child.line() == "stored"
        child.rest()
    assert len(list((life.path / "blobs").iterdir())) == 2
    (message,) = life.open().queue("orders").receive(10)
    assert (message.id, message.data) == (sent, LARGE)
    assert len(list((life.path / "blobs").iterdir())) == 1


def test_encryption_covers_every_file(life: Life, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYS", "11" * 32)
    options = {"encryption_key_env": "KEYS", "segment_bytes": 4_096, "archive_dir": str(tmp_path / "archive")}
    broker = life.open(**options)
    orders = broker.queue("orders")
    secrets = ["a very secret body", "a very secret body" * 20_000]
    orders.send_many(secrets, headers={"name": "a very secret header"})
    for _ in range(30):
        orders.send("a very secret body" * 20, group="a very secret group")
    assert len(list((life.path / "blobs").iterdir())) == 1
    life.opened.pop().close()
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert len(stored) > len(secrets[1])
    assert b"very secret" not in stored
    taken = life.open(**options).queue("orders").receive(10)
    assert [message.body for message in taken if message.group is None] == secrets


def test_bodies_larger_than_a_record(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYS", "11" * 32)
    body = b"x" * (17 << 20)
    for options in ({}, {"encryption_key_env": "KEYS"}):
        orders = life.open(message_bytes_max=20 << 20, **options).queue("orders")
        orders.send(body)
        assert orders.receive()[0].data == body
        life.opened.pop().close()
