"""Streams of several partitions, and consumer groups on them."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.core.consumer_groups import ConsumerGroups
from leveret.core.errors import InvalidArgument, PreconditionFailed
from leveret.journal.disk import Disk
from leveret.stream.options import StreamOptions
from leveret.stream.stream import Stream
from tests.core.world import World as CoreWorld
from tests.stream.world import ROUTE, drained

KEYS = [b"key %d" % number for number in range(200)]


def opened(path: Path, partitions: int = 4) -> Stream:
    disks = [Disk(path / str(number)) for number in range(partitions)]
    return Stream(disks, StreamOptions(sync="never", segment_bytes=1 << 10))


@pytest.fixture
def stream(tmp_path: Path) -> Iterator[Stream]:
    stream = opened(tmp_path)
    yield stream
    stream.close(0)


def fill(stream: Stream) -> None:
    """Append each key three times, one round in each second."""
    for round_number in range(3):
        for key in KEYS:
            stream.partitions[stream.partition_of(key)].append(1_000 * round_number, ROUTE, key)
        stream.commit(1_000 * round_number)


def test_records_of_a_key_are_in_one_partition_in_their_order(stream: Stream) -> None:
    fill(stream)
    for number, log in enumerate(stream.partitions):
        keys = [key for key in KEYS if stream.partition_of(key) == number]
        assert 20 < len(keys) < 80
        assert [record.content for record in drained(log.reader(0))] == keys * 3


def test_keys_are_in_the_same_partition_in_every_process(stream: Stream) -> None:
    program = (
        "from leveret.core.exchanges.hashing import stable_hash;"
        "print([stable_hash(b'key %d' % number) % 4 for number in range(200)])"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said.strip() == str([stream.partition_of(key) for key in KEYS])


def test_records_without_a_key_take_turns(stream: Stream) -> None:
    assert sorted(stream.partition_of(None) for _ in range(8)) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_the_number_of_partitions_stays(tmp_path: Path) -> None:
    stream = opened(tmp_path)
    fill(stream)
    stream.close(0)
    with pytest.raises(PreconditionFailed, match="0 of 4, not 0 of 5"):
        opened(tmp_path, 5)


def test_a_stream_needs_partitions(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="1 to 1024 partitions"):
        Stream([], StreamOptions())


def test_a_group_reads_every_record_once_while_members_come_and_go(stream: Stream) -> None:
    fill(stream)
    group = ConsumerGroups(CoreWorld().broker).declare("/", "events", "billing", 4)
    seen: list[bytes] = []
    for turn in range(200):
        now_ms = 700 * turn
        name = f"member {turn % 3}"
        assignment = group.join(name, now_ms, session_ms=2_200)
        for partition in assignment.partitions:
            reader = stream.partitions[partition].reader(group.position(partition, stream))
            seen += [record.content for record in reader.read()]
            group.commit(name, assignment.generation, {partition: reader.offset}, now_ms)
            reader.close()
        if turn % 7 == 0:
            group.leave(name, now_ms)
    assert sorted(seen) == sorted(KEYS * 3)
    assert set(group.lag(stream).values()) == {0}


def test_a_group_goes_back_to_a_time(stream: Stream) -> None:
    fill(stream)
    group = ConsumerGroups(CoreWorld().broker).declare("/", "events", "billing", 4)
    group.reset(stream, 1_000)
    assert sum(group.lag(stream).values()) == 2 * len(KEYS)
    group.reset(stream, "latest")
    assert sum(group.lag(stream).values()) == 0
    stream.retain(0, max_bytes=1 << 11)
    group.reset(stream, "earliest")
    assert 0 < sum(group.lag(stream).values()) < 3 * len(KEYS)
