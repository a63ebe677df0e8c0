"""Streams through the embedded API: sending, reading, waiting, groups, retention, deletion, and coming back."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import leveret
from leveret.core.errors import InvalidArgument, NotFound, NotSupported, QueueNotFound, StaleGeneration
from leveret.runtime import storage
from leveret.runtime.reading import READ_MAX
from leveret.storage.stream.store import LOGS_MAX
from tests.waiting import PATIENCE_S

STORES = {"files": "tmp_path", "tables": "store_url"}


@pytest.fixture(params=["memory", *STORES])
def broker(request: pytest.FixtureRequest) -> Iterator[leveret.Broker]:
    place = request.getfixturevalue(STORES[request.param]) if request.param in STORES else None
    with leveret.open(place) as broker:
        yield broker


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(STORES[request.param]))


@pytest.fixture
def clicks(broker: leveret.Broker) -> leveret.Stream:
    return broker.stream("clicks")


def bodies(stream: leveret.Stream, partition: int = 0, offset: int | str = 0) -> list[object]:
    return [record.body for record in stream.read(partition, offset, max_records=READ_MAX, max_bytes=16 << 20)]


def test_what_was_sent_is_read_again_and_again(clicks: leveret.Stream) -> None:
    assert clicks.send({"page": 1}) == (0, 0)
    assert clicks.send("text") == (0, 1)
    assert clicks.send_many([b"bytes", b"more"]) == [(0, 2), (0, 3)]
    for _ in range(2):
        assert bodies(clicks) == [{"page": 1}, "text", b"bytes", b"more"]


def test_a_record_tells_all_that_it_was_sent_with(clicks: leveret.Stream) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    clicks.send("x", key="user 1", headers={"a": 5}, producer="till", sequence=9, filter="eu", properties={"type": "t"})
    record = clicks.read()[0]
    assert (record.offset, record.partition, record.key, record.headers["a"]) == (0, 0, "user 1", 5)
    assert (record.producer, record.sequence, record.filter) == ("till", 9, "eu")
    assert (record.properties.type, record.exchange, record.routing_key) == ("t", "", "clicks")
    assert before < record.timestamp < datetime.now(UTC)


def test_readers_start_where_they_want(clicks: leveret.Stream) -> None:
    clicks.send_many([b"0", b"1", b"2"])
    clicks.send_many([b"3", b"4"])
    assert bodies(clicks, offset="first") == [b"0", b"1", b"2", b"3", b"4"]
    assert bodies(clicks, offset="last") == [b"3", b"4"]
    assert bodies(clicks, offset="next") == []
    assert bodies(clicks, offset=3) == [b"3", b"4"]
    assert bodies(clicks, offset="1h") == [b"0", b"1", b"2", b"3", b"4"]
    assert clicks.at(0, datetime.now(UTC) + timedelta(hours=1)) == clicks.latest() == 5
    assert clicks.read(0, datetime.now(UTC) - timedelta(hours=1))[0].offset == clicks.earliest() == 0


def test_a_reader_gets_no_more_than_it_asks_for(clicks: leveret.Stream) -> None:
    clicks.send_many([b"x" * 1000] * 100)
    assert len(clicks.read(max_records=7)) == 7
    assert len(clicks.read(max_bytes=10_000)) == 10
    with clicks.reader(offset="first") as reader:
        assert [len(reader.read(60)), len(reader.read(60)), len(reader.read(60))] == [60, 40, 0]


@pytest.mark.parametrize("limits", [{"max_records": 0}, {"max_records": READ_MAX + 1}, {"max_bytes": 0}])
def test_limits_of_a_read_have_limits(clicks: leveret.Stream, limits: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument, match="one call reads 1 to"):
        clicks.read(0, 0, **limits)


@pytest.mark.parametrize("place", [-1, "yesterday", 1.5, True, None])
def test_a_place_that_is_none_is_refused(clicks: leveret.Stream, place: object) -> None:
    with pytest.raises(InvalidArgument):
        clicks.read(0, place)  # type: ignore[arg-type]


@pytest.mark.parametrize("partition", [-1, 1, "0"])
def test_a_partition_that_does_not_exist_is_refused(clicks: leveret.Stream, partition: int) -> None:
    with pytest.raises(InvalidArgument, match="has partitions 0 to 0"):
        clicks.read(partition)


def test_a_reader_waits_for_what_comes(clicks: leveret.Stream) -> None:
    seen: list[object] = []
    threads = [threading.Thread(target=lambda: seen.append(clicks.read(0, 0, wait=60)[0].body)) for _ in range(3)]
    for thread in threads:
        thread.start()
    clicks.send("at last")
    for thread in threads:
        thread.join()
    assert seen == ["at last"] * 3


def test_tasks_read_and_wait_too(clicks: leveret.Stream) -> None:
    async def run() -> list[object]:
        waiting = asyncio.create_task(leveret.AsyncStream(clicks).read(0, 0, wait=60))
        await asyncio.sleep(0)
        await leveret.AsyncStream(clicks).send("one")
        await leveret.AsyncStream(clicks).send_many(["two", "three"])
        first = await waiting
        seen = [record.body async for record in _first(clicks, 3)]
        return [first[0].body, seen]

    assert asyncio.run(run()) == ["one", ["one", "two", "three"]]


async def _first(stream: leveret.Stream, count: int) -> AsyncIterator[leveret.StreamRecord]:
    async for record in leveret.AsyncStream(stream).iterate(offset="first"):
        yield record
        count -= 1
        if not count:
            return


def test_iterating_ends_with_the_broker() -> None:
    broker = leveret.open()
    stream = broker.stream("clicks")
    stream.send_many([b"1", b"2"])
    seen: list[object] = []

    def read() -> None:
        for record in stream.iterate(offset="first"):
            seen.append(record.body)
            if len(seen) == 2:
                got.set()

    got = threading.Event()
    thread = threading.Thread(target=read)
    thread.start()
    got.wait(PATIENCE_S)
    broker.close()
    thread.join()
    assert seen == [b"1", b"2"]


def test_a_producer_does_not_send_twice(broker: leveret.Broker, clicks: leveret.Stream) -> None:
    assert clicks.send_many(["a", "b"], producer="till", sequence=1) == [(0, 0), (0, 1)]
    assert clicks.send("b", producer="till", sequence=2) == (0, None)
    assert clicks.send("c", producer="till", sequence=3) == (0, 2)
    assert bodies(clicks) == ["a", "b", "c"]
    with pytest.raises(InvalidArgument, match="both producer and sequence"):
        clicks.send("d", producer="till")
    with pytest.raises(InvalidArgument, match="x-sequence"):
        clicks.send("d", producer="till", sequence=-1)
    with pytest.raises(InvalidArgument, match="up to 255 bytes"):
        clicks.send("d", producer="x" * 256, sequence=1)


def test_filters_choose_records(clicks: leveret.Stream) -> None:
    for country in ("de", "fr", "de"):
        clicks.send(country, filter=country)
    clicks.send("nowhere")
    with clicks.reader(offset="first", filters=["de"]) as reader:
        assert [record.body for record in reader.read()] == ["de", "de"]
    with clicks.reader(offset="first", filters=["fr"], match_unfiltered=True) as reader:
        assert [record.body for record in reader.read()] == ["fr", "nowhere"]


def test_a_message_goes_to_queues_and_streams_alike(broker: leveret.Broker, clicks: leveret.Stream) -> None:
    queue = broker.queue("work")
    exchange = broker.exchange("events", "fanout")
    exchange.bind("work")
    exchange.bind("clicks")
    exchange.publish("key", "both", ttl=60)
    assert queue.receive()[0].body == "both"
    assert clicks.read()[0].body == "both"


def test_a_large_body_is_whole_in_a_stream(broker: leveret.Broker, clicks: leveret.Stream) -> None:
    body = bytes(range(256)) * 4096
    exchange = broker.exchange("events", "fanout")
    exchange.bind("clicks")
    exchange.publish("key", body)
    clicks.send(body)
    assert bodies(clicks) == [body, body]


def test_dead_letters_go_to_a_stream_and_what_it_refuses_is_dropped(
    broker: leveret.Broker, clicks: leveret.Stream
) -> None:
    queue = broker.queue("work", dead_letter="clicks")
    queue.send("dead")
    queue.send("bad", headers={"x-producer": 5})
    for message in queue.receive(2):
        message.reject()
    assert [record.body for record in clicks.read(wait=60)] == ["dead"]
    assert len(queue) == 0


def test_readers_at_the_same_place_share_what_was_read(clicks: leveret.Stream) -> None:
    clicks.send_many([b"x" * 1000] * 10)
    log = clicks.recorder.logs[0]
    pieces = []
    for _ in range(2):
        reader = log.reader(0)
        pieces.append(reader.blocks()[0][0])
        reader.close()
    assert pieces[0] is pieces[1]


def test_a_queue_is_no_stream_and_a_stream_no_queue(broker: leveret.Broker, clicks: leveret.Stream) -> None:
    broker.queue("work")
    with pytest.raises(leveret.PreconditionFailed, match="x-queue-type"):
        broker.stream("work", partitions=2)
    with pytest.raises(NotSupported, match=r"use broker\.queue"):
        broker.stream("work")
    with pytest.raises(InvalidArgument, match=r"broker\.stream"):
        broker.queue("other", arguments={"x-queue-type": "stream"})
    with pytest.raises(NotSupported, match="read it from an offset"):
        broker.queue("clicks").receive()


def test_all_partitions_together_are_limited(broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret.storage.stream.store.LOGS_MAX", 3)
    broker.stream("small", partitions=3)
    with pytest.raises(leveret.TooMany, match="the limit is 3"):
        broker.stream("one more")
    assert LOGS_MAX > 3


def test_a_deleted_stream_is_gone_with_its_groups(broker: leveret.Broker, clicks: leveret.Stream) -> None:
    clicks.send("x")
    clicks.group("billing")
    assert clicks.delete() == 1
    for verb in (lambda: clicks.send("y"), lambda: clicks.read(), lambda: clicks.group("billing")):
        with pytest.raises(QueueNotFound, match="was deleted"):
            verb()
    again = broker.stream("clicks")
    assert (bodies(again), again.groups()) == ([], [])


# Groups


def test_members_share_the_partitions_and_go_on_where_the_group_is(broker: leveret.Broker) -> None:
    stream = broker.stream("clicks", partitions=4)
    stream.send_many([b"%d" % number for number in range(40)])
    group = stream.group("billing")
    with group.consumer("one") as one:
        assert one.partitions == (0, 1, 2, 3)
        with group.consumer("two") as two:
            first, second = one.poll(100), two.poll(100)
            assert len(one.partitions) == len(two.partitions) == 2
            assert len({(record.partition, record.offset) for record in first + second}) == 40
            assert one.commit()
    assert sum(group.lag().values()) == 20
    with group.consumer("three") as three:
        assert {(each.partition, each.offset) for each in three.poll(100)} == {
            (each.partition, each.offset) for each in second
        }
        assert three.commit()
    assert sum(group.lag().values()) == 0


def test_iterating_commits_what_was_given(clicks: leveret.Stream) -> None:
    clicks.send_many([b"1", b"2", b"3"])
    group = clicks.group("billing")
    with group.consumer() as consumer:
        for record in consumer:
            if record.body == b"2":
                consumer.commit()
                break
    assert (group.committed, group.lag(), group.position(0)) == ({0: 2}, {0: 1}, 2)


def test_a_consumer_waits_for_what_comes(clicks: leveret.Stream) -> None:
    with clicks.group("billing").consumer() as consumer:
        sender = threading.Timer(0.01, lambda: clicks.send("late"))
        sender.start()
        assert [record.body for record in consumer.poll(wait=60)] == ["late"]
        sender.join()
        assert consumer.poll() == []


def test_operators_reset_and_delete_groups(clicks: leveret.Stream) -> None:
    clicks.send_many([b"1", b"2"])
    group = clicks.group("billing")
    assignment = group.join("one")
    assert group.members == {"one": (0,)}
    assert group.reset("latest") == {0: 2}
    with pytest.raises(StaleGeneration, match="join it again"):
        group.heartbeat("one", assignment.generation)
    assert group.reset("earliest") == {0: 0}
    assert group.reset(datetime.now(UTC) - timedelta(hours=1)) == {0: 0}
    with pytest.raises(InvalidArgument, match="earliest, latest or a datetime"):
        group.reset("middle")  # type: ignore[arg-type]
    with pytest.raises(leveret.PreconditionFailed, match="has members"):
        group.delete()
    group.leave("one")
    group.delete()
    with pytest.raises(NotFound):
        group.lag()


# Time and restarts


def test_a_silent_member_is_put_out_by_time() -> None:
    clock = leveret.ManualClock()
    with leveret.open(clock=clock) as broker:
        group = broker.stream("clicks").group("billing")
        group.join("one", session=5)
        clock.advance(6)
        group.join("two", session=5)
        assert group.members == {"two": (0,)}


def test_streams_come_back(place: str) -> None:
    with leveret.open(place) as broker:
        stream = broker.stream("clicks", partitions=2, max_age=timedelta(days=7), max_bytes=1 << 30)
        stream.send_many(["a", "b", "c"], key="same")
        group = stream.group("billing")
        with group.consumer() as consumer:
            consumer.poll(2)
            consumer.commit()
        partition = stream.send("d", key="same").partition
    with leveret.open(place) as broker:
        stream = broker.stream("clicks")
        assert bodies(stream, partition) == ["a", "b", "c", "d"]
        assert sum(stream.group("billing").lag().values()) == 2
        assert stream.send("e", key="same") == (partition, 4)
        assert [each.name for each in broker.streams()] == ["clicks"]


def test_old_segments_go_and_their_readers_go_on_at_the_oldest(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "TABLE_SEGMENT_BYTES_MIN", 1 << 10)
    clock = leveret.ManualClock()
    with leveret.open(place, clock=clock) as broker:
        stream = broker.stream("clicks", max_bytes=4 << 10, segment_bytes=1 << 10)
        with stream.reader(offset="first") as reader:
            stream.send("first of all")
            assert [record.body for record in reader.read()] == ["first of all"]
            for number in range(0, 200, 5):
                stream.send_many([b"%d" % each + b"." * 100 for each in range(number, number + 5)])
            broker.runtime.streams.retain(clock.now_ms())
            assert stream.earliest() > 100
            assert stream.stats().size_bytes < 6 << 10
            # It has the segment that it was reading; after that comes the oldest that there is.
            offsets = [record.offset for record in reader.read(READ_MAX)]
            offsets += [record.offset for record in reader.read(READ_MAX)]
            assert offsets[-1] == 200
            assert stream.earliest() in offsets
        clock.advance(3600)
        broker.policy("short", ".*", {"max-age": "1h"}, apply_to="streams")
        stream.send("now")
        clock.advance(3600)
        stream.send(b"." * 1000)
        stream.send(b"now")
        broker.runtime.streams.retain(clock.now_ms())
        assert stream.stats().records < 20


def test_files_of_a_deleted_stream_go_when_that_is_durable(tmp_path: Path) -> None:
    clock = leveret.ManualClock()
    with leveret.open(tmp_path, clock=clock) as broker:
        kept = broker.stream("kept")
        kept.send("x")
        broker.stream("clicks").delete()
        with broker.runtime.lock:
            gone = broker.runtime.streams.take_gone()
        assert len(list((tmp_path / "streams").iterdir())) == 2
        broker.runtime.streams.remove(gone)
        assert len(list((tmp_path / "streams").iterdir())) == 1


def test_a_directory_that_no_stream_owns_goes_when_the_broker_is_opened(tmp_path: Path) -> None:
    with leveret.open(tmp_path) as broker:
        broker.stream("clicks").send("x")
    (tmp_path / "streams" / "99" / "0").mkdir(parents=True)
    with leveret.open(tmp_path) as broker:
        assert not (tmp_path / "streams" / "99").exists()
        assert bodies(broker.stream("clicks")) == ["x"]


def test_streams_are_encrypted_at_rest_as_the_log_is(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("00" * 32)
    data = tmp_path / "data"
    with leveret.open(data, encryption_key_file=str(keys)) as broker:
        broker.stream("clicks").send("a secret text")
    stored = b"".join(path.read_bytes() for path in data.rglob("*.log"))
    assert b"a secret text" not in stored
    with leveret.open(data, encryption_key_file=str(keys)) as broker:
        assert bodies(broker.stream("clicks")) == ["a secret text"]
