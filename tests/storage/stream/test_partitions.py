"""Streams of several partitions in a broker, and the core's consumer groups on them."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import leveret
from leveret.core.consumer_groups import ConsumerGroup
from leveret.core.errors import InvalidArgument, PreconditionFailed
from leveret.storage.stream.recorder import StreamRecorder

KEYS = [f"key {number}" for number in range(200)]


@pytest.fixture
def clock() -> leveret.ManualClock:
    return leveret.ManualClock(1_000_000)


@pytest.fixture
def broker(tmp_path: Path, clock: leveret.ManualClock) -> Iterator[leveret.Broker]:
    with leveret.open(tmp_path, clock=clock, sync="never") as broker:
        yield broker


@pytest.fixture
def stream(broker: leveret.Broker) -> leveret.Stream:
    return broker.stream("events", partitions=4, segment_bytes=1 << 10)


@pytest.fixture
def places(stream: leveret.Stream) -> StreamRecorder:
    return stream.recorder


@pytest.fixture
def group(broker: leveret.Broker, stream: leveret.Stream) -> ConsumerGroup:
    with broker.runtime:
        return broker.runtime.streams.groups.declare("/", "events", "billing", 4)


def fill(stream: leveret.Stream, clock: leveret.ManualClock) -> dict[str, int]:
    """Append each key three times, one round in each second; say where they are."""
    partitions = {}
    for _ in range(3):
        for key in KEYS:
            _, sent = stream.post_many([key.encode()], key=key)
            partitions[key] = sent[0].partition
        stream.broker.flush()
        clock.advance(1)
    return partitions


def test_records_of_a_key_are_in_one_partition_in_their_order(
    stream: leveret.Stream, clock: leveret.ManualClock
) -> None:
    partitions = fill(stream, clock)
    for number in range(4):
        keys = [key for key in KEYS if partitions[key] == number]
        assert 20 < len(keys) < 80
        records = stream.read(number)
        assert [record.key for record in records] == keys * 3
        assert [record.offset for record in records] == list(range(3 * len(keys)))


def test_keys_are_in_the_same_partition_in_every_process(stream: leveret.Stream, clock: leveret.ManualClock) -> None:
    program = (
        "from leveret.core.exchanges.hashing import stable_hash;"
        "print([stable_hash(b'key %d' % number) % 4 for number in range(200)])"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    partitions = fill(stream, clock)
    assert said.strip() == str([partitions[key] for key in KEYS])


def test_records_without_a_key_take_turns(stream: leveret.Stream) -> None:
    sent = stream.send_many([b"one"] * 8)
    assert sorted(each.partition for each in sent) == [0, 0, 1, 1, 2, 2, 3, 3]


def test_without_a_key_a_producer_has_one_partition(stream: leveret.Stream) -> None:
    sent = stream.send_many([b"one"] * 8, producer="till 7", sequence=1)
    assert len({each.partition for each in sent}) == 1


def test_the_routing_key_is_the_key_of_what_comes_through_an_exchange(
    broker: leveret.Broker, stream: leveret.Stream
) -> None:
    exchange = broker.exchange("all", "fanout")
    exchange.bind(stream.name)
    for _ in range(3):
        exchange.publish("user 17", "click")
    assert sorted(each.records for each in stream.stats().partitions) == [0, 0, 0, 3]


def test_the_number_of_partitions_stays(tmp_path: Path) -> None:
    with leveret.open(tmp_path) as broker:
        broker.stream("events", partitions=4)
        with pytest.raises(PreconditionFailed, match="x-partitions"):
            broker.stream("events", partitions=5)
    with leveret.open(tmp_path) as broker:
        assert broker.stream("events").partitions == 4


@pytest.mark.parametrize("partitions", [0, 1025])
def test_the_number_of_partitions_is_limited(broker: leveret.Broker, partitions: int) -> None:
    with pytest.raises(InvalidArgument, match="x-partitions"):
        broker.stream("other", partitions=partitions)


def test_a_group_reads_every_record_once_while_members_come_and_go(
    stream: leveret.Stream, clock: leveret.ManualClock, group: ConsumerGroup, places: StreamRecorder
) -> None:
    fill(stream, clock)
    seen: list[str] = []
    for turn in range(200):
        now_ms = clock.now_ms() + 700 * turn
        name = f"member {turn % 3}"
        with stream.runtime:
            assignment = group.join(name, now_ms, session_ms=2_200)
        for partition in assignment.partitions:
            reader = places.logs[partition].reader(group.position(partition, places))
            seen += [record.body.decode() for record in reader.read()]
            with stream.runtime:
                group.commit(name, assignment.generation, {partition: reader.offset}, now_ms)
            reader.close()
        if turn % 7 == 0:
            with stream.runtime:
                group.leave(name, now_ms)
    assert sorted(seen) == sorted(KEYS * 3)
    assert set(group.lag(places).values()) == {0}


def test_a_group_goes_back_to_a_time(
    stream: leveret.Stream, clock: leveret.ManualClock, group: ConsumerGroup, places: StreamRecorder
) -> None:
    fill(stream, clock)
    with stream.runtime:
        group.reset(places, 1_001_000)
        assert sum(group.lag(places).values()) == 2 * len(KEYS)
        group.reset(places, "latest")
        assert sum(group.lag(places).values()) == 0
        for log in places.logs:
            log.retain(0, max_bytes=1 << 11)
        group.reset(places, "earliest")
        assert 0 < sum(group.lag(places).values()) < 3 * len(KEYS)
