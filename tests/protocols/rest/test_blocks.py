"""Offsets and blocks of streams over HTTP."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import leveret
from leveret.storage.stream.blocks import BlockColumns, block_at
from tests.protocols.rest.world import RestWorld


@pytest.fixture
def world(clock: leveret.ManualClock, tmp_path: Path) -> Iterator[RestWorld]:
    """A broker on files behind HTTP, with a stream of ten records in one partition."""
    with leveret.open(tmp_path, clock=clock, sync="never") as broker, RestWorld(broker) as running:
        stream = broker.stream("clicks")
        for number in range(10):
            stream.send(b"%d" % number)
            clock.advance(1)
        yield running


def bodies(data: bytes) -> bytes:
    """All bodies, one behind the other."""
    columns, at = BlockColumns(0, 1 << 62, ("body",)), 0
    while at < len(data):
        head = block_at(data, at)
        assert head is not None
        assert columns.add(data, head.start, head.end, head.first, head.count)
        at = head.end
    return columns.take()["body"]


def test_offsets_of_every_partition_come_in_one_answer(world: RestWorld, clock: leveret.ManualClock) -> None:
    told = world.ok("GET /queues/clicks/offsets")
    assert told == {"id": told["id"], "partitions": [{"partition": 0, "first": 0, "end": 10}]}
    line = f"GET /queues/clicks/offsets?timestamp_ms={clock.now_ms() - 3_000}&after=0:4&bytes=1"
    (row,) = world.ok(line)["partitions"]
    assert row["at"] == 7
    assert 4 < row["reach"] <= 10


def test_blocks_come_as_they_lie_in_the_log(world: RestWorld) -> None:
    assert bodies(world.ok("GET /queues/clicks/blocks?offset=0")) == b"0123456789"
    assert bodies(world.ok("GET /queues/clicks/blocks?offset=3&end=5")) == b"34"
    assert bodies(world.ok("GET /queues/clicks/blocks?offset=3&bytes=1")) == b"3"
    assert world.ok("GET /queues/clicks/blocks?offset=10") == b""


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("/queues/clicks/blocks", 400),
        ("/queues/clicks/blocks?offset=0&partition=1", 400),
        ("/queues/clicks/blocks?offset=0&bytes=99999999999", 400),
        ("/queues/clicks/offsets?after=0:x&bytes=1", 400),
        ("/queues/orders/blocks?offset=0", 422),
        ("/queues/orders/offsets", 422),
        ("/queues/missing/offsets", 404),
    ],
)
def test_what_makes_no_sense_is_refused(world: RestWorld, line: str, status: int) -> None:
    world.broker.queue("orders")
    assert world.call(f"GET {line}").status == status


def test_a_stream_cannot_be_reserved(world: RestWorld) -> None:
    refused = world.call("POST /queues/clicks/reservations/g", {})
    assert (refused.status, "by its offsets" in refused.json["detail"]) == (422, True)


def test_who_may_not_read_a_stream_gets_no_block_of_it(world: RestWorld) -> None:
    token = world.add_user("stranger", read="^other$")
    for what in "blocks?offset=0", "offsets":
        assert world.call(f"GET /queues/clicks/{what}", token=token).status == 403
