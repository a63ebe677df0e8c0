"""Verbs of streams and groups that the embedded broker and the client both have: the same tests for both."""

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import leveret
from leveret import InvalidArgument, NotFound, PreconditionFailed, QueueNotFound, StaleGeneration
from tests.waiting import wait_until

pytestmark = pytest.mark.everywhere


@pytest.fixture
def clicks(broker: Any) -> Any:
    return broker.stream("clicks", partitions=2)


@pytest.fixture
def log(broker: Any) -> Any:
    return broker.stream("log")


def bodies(records: Any) -> list[Any]:
    return [record.body for record in records]


def test_a_stream_is_made_listed_and_deleted(broker: Any, clicks: Any) -> None:
    assert broker.stream("clicks").partitions == 2
    broker.stream("days", max_age="7D", max_bytes=10**9, segment_bytes=10**6)
    broker.stream("hours", max_age=timedelta(hours=3))
    broker.queue("orders")
    assert [stream.name for stream in broker.streams()] == ["clicks", "days", "hours"]
    clicks.send_many([b"1", b"2", b"3"])
    assert clicks.delete() == 3
    with pytest.raises(QueueNotFound):
        clicks.send("late")


@pytest.mark.parametrize("options", [{"partitions": 3}, {"partitions": 0}, {"max_age": "soon"}, {"segment_bytes": 1}])
def test_a_stream_with_wrong_options_is_refused(broker: Any, clicks: Any, options: dict[str, Any]) -> None:
    with pytest.raises(PreconditionFailed):
        broker.stream("clicks", **options)


def test_whatever_was_sent_comes_back(log: Any) -> None:
    assert [log.send(body) for body in ({"page": 1}, "text", b"bytes")] == [(0, 0), (0, 1), (0, 2)]
    assert log.send_many(["more", b""]) == [(0, 3), (0, 4)]
    for _ in range(2):
        assert bodies(log.read()) == [{"page": 1}, "text", b"bytes", "more", b""]


def test_a_record_tells_all_that_it_was_sent_with(log: Any, clock: leveret.ManualClock) -> None:
    log.send("x", key="ann", headers={"a": b"\0"}, producer="till", sequence=9, filter="eu", properties={"type": "t"})
    (record,) = log.read()
    assert (record.partition, record.offset, record.key, record.headers["a"]) == (0, 0, "ann", b"\0")
    assert (record.producer, record.sequence, record.filter) == ("till", 9, "eu")
    assert (record.properties.type, record.exchange, record.routing_key) == ("t", "", "log")
    assert (record.timestamp_ms, record.data) == (clock.now_ms(), b"x")
    assert record.timestamp == datetime.fromtimestamp(clock.now_ms() / 1000, UTC)


def test_readers_start_where_they_want(log: Any, clock: leveret.ManualClock) -> None:
    for number in range(3):
        clock.advance(60)
        log.send(number)
    minute_ago = datetime.fromtimestamp(clock.now_ms() / 1000 - 60, UTC)
    places = {"first": [0, 1, 2], "last": [2], "next": [], 1: [1, 2], 7: [], "90s": [1, 2], minute_ago: [1, 2]}
    assert {place: bodies(log.read(0, place)) for place in places} == places
    assert (log.earliest(), log.latest(), log.at(0, minute_ago)) == (0, 3, 1)
    assert log.at(0, datetime.fromtimestamp(clock.now_ms() / 1000 + 60, UTC)) == 3


@pytest.mark.parametrize("offset", [-1, "yesterday"])
def test_a_place_that_is_none_is_refused(log: Any, offset: Any) -> None:
    with pytest.raises(InvalidArgument):
        log.read(0, offset)


def test_a_partition_that_does_not_exist_is_refused(log: Any) -> None:
    with pytest.raises(InvalidArgument, match="has partitions 0 to 0"):
        log.read(1)


def test_a_read_has_limits(log: Any) -> None:
    log.send_many([b"x" * 1000] * 20)
    assert len(log.read(max_records=7)) == 7
    assert len(log.read(max_bytes=5_000)) == 5
    with pytest.raises(InvalidArgument):
        log.read(max_records=0)


def test_a_reader_moves_on(log: Any) -> None:
    log.send_many([b"0", b"1", b"2"])
    with log.reader(offset="next") as late, log.reader(offset="first") as reader:
        log.send(b"3")
        assert (late.offset, bodies(late.read())) == (3, [b"3"])
        assert [bodies(reader.read(3)), bodies(reader.read(3)), reader.read(3)] == [[b"0", b"1", b"2"], [b"3"], []]
        assert (reader.partition, reader.offset) == (0, 4)


def test_a_reader_of_filter_values(log: Any) -> None:
    for value in ("eu", "us", None):
        log.send(value, filter=value)
    with log.reader(offset="first", filters=["eu", "asia"]) as reader:
        assert bodies(reader.read()) == ["eu"]
    with log.reader(offset="first", filters=["eu"], match_unfiltered=True) as reader:
        assert bodies(reader.read()) == ["eu", None]


def test_a_reader_waits_for_what_comes(log: Any, calls: Any) -> None:
    waiting = calls.start(log.read, 0, "next", wait=60)
    # Whoever stands in the line may not have looked yet where "next" is: what comes before that is not for him.
    wait_until(lambda: log.send("late") and waiting.done())
    assert set(bodies(waiting.result())) == {"late"}


def test_records_one_after_the_other(log: Any) -> None:
    log.send_many(["a", "b", "c"])
    records = log.iterate(0, 1)
    assert [next(records).body, next(records).body] == ["b", "c"]
    records.close()


def test_a_producer_does_not_send_twice(log: Any) -> None:
    assert log.send_many(["a", "b"], producer="till", sequence=1) == [(0, 0), (0, 1)]
    assert log.send("b", producer="till", sequence=2) == (0, None)
    assert log.send("c", producer="till", sequence=3) == (0, 2)
    assert bodies(log.read()) == ["a", "b", "c"]
    with pytest.raises(InvalidArgument, match="both producer and sequence"):
        log.send("d", producer="till")


def test_nothing_of_a_batch_is_there_when_one_of_it_is_refused(log: Any) -> None:
    with pytest.raises(InvalidArgument):
        log.send_many(["a", "b"], filter="\u20ac" * 100)
    assert log.stats().records == 0


def test_a_key_has_its_partition(clicks: Any) -> None:
    sent = [clicks.send(number, key=f"user {number % 5}") for number in range(20)]
    assert len({each.partition for each in sent}) == 2
    assert all(sent[number].partition == sent[number % 5].partition for number in range(20))
    stats = clicks.stats()
    assert (stats.records, [each.partition for each in stats.partitions]) == (20, [0, 1])
    assert sum(each.next_offset for each in stats.partitions) == 20


def test_members_of_a_group(clicks: Any, clock: leveret.ManualClock) -> None:
    clicks.send_many(range(10))
    group = clicks.group("billing")
    first = group.join("a", session=10)
    assert (first.partitions, group.members) == ((0, 1), {"a": (0, 1)})
    second = group.join("b", session=10)
    assert (len(second.partitions), group.generation) == (1, second.generation)
    with pytest.raises(StaleGeneration):
        group.heartbeat("a", first.generation)
    first = group.join("a", session=10)
    group.commit("a", first.generation, {first.partitions[0]: 3})
    assert group.committed == {first.partitions[0]: 3}
    assert [group.position(each) for each in (first.partitions[0], second.partitions[0])] == [3, 0]
    clock.advance(9)
    group.heartbeat("a", first.generation)
    clock.advance(9)
    with pytest.raises(StaleGeneration):
        group.commit("b", second.generation, {})
    group.leave("a")
    assert group.members == {}
    assert sum(group.lag().values()) == 7


def test_a_group_is_reset_and_deleted(clicks: Any, clock: leveret.ManualClock) -> None:
    clicks.send_many(range(10))
    moment = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
    group = clicks.group("billing")
    assert sum(group.reset("latest").values()) == 10
    assert set(group.lag().values()) == {0}
    assert set(group.reset("earliest").values()) == {0}
    assert set(group.reset(moment).values()) == {0}
    assert [each.name for each in clicks.groups()] == ["billing"]
    group.join("a")
    with pytest.raises(PreconditionFailed):
        group.delete()
    group.leave("a")
    group.delete()
    assert clicks.groups() == []
    with pytest.raises(NotFound):
        group.lag()


def test_a_consumer_reads_commits_and_goes_on(clicks: Any) -> None:
    clicks.send_many(range(10))
    group = clicks.group("billing")
    with group.consumer("a") as consumer:
        found = bodies(consumer.poll(4))
        assert consumer.commit()
        consumer.poll(4)
    with group.consumer() as consumer:
        assert consumer.partitions == (0, 1)
        while records := consumer.poll(4):
            found += bodies(records)
        assert consumer.commit()
    assert sorted(found) == list(range(10))


def test_consumers_share_what_they_read(clicks: Any) -> None:
    clicks.send_many(range(10))
    group = clicks.group("billing")
    with group.consumer("a") as first, group.consumer("b") as second:
        found = bodies(first.poll()) + bodies(second.poll())
        assert (first.commit(), second.commit()) == (True, True)
        assert sorted(found) == list(range(10))
        assert sum(group.lag().values()) == 0


def test_a_commit_that_comes_too_late_is_not_noted(clicks: Any) -> None:
    clicks.send_many(range(10))
    group = clicks.group("billing")
    with group.consumer("a") as first:
        assert len(first.poll()) == 10
        with group.consumer("b"):
            assert not first.commit()
            assert len(first.partitions) == 1
    assert group.committed == {}


def test_a_consumer_waits_for_what_comes(clicks: Any, calls: Any) -> None:
    with clicks.group("billing").consumer() as consumer:
        waiting = calls.start(consumer.poll, wait=60)
        while not clicks.stats().waiters:
            os.sched_yield()
        clicks.send("late")
        assert bodies(waiting.result()) == ["late"]


def test_a_consumer_is_iterated(clicks: Any) -> None:
    clicks.send_many(range(3))
    found = []
    with clicks.group("billing").consumer() as consumer:
        for record in consumer:
            found.append(record.body)
            assert consumer.commit()
            if len(found) == 3:
                break
    assert sorted(found) == [0, 1, 2]
