"""Queues read by the objects that Spark would call, without Spark."""

import pickle
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

import leveret
from leveret.core.errors import InvalidArgument, NotFound, NotSupported, PreconditionFailed, Unreachable
from leveret.spark import queues
from leveret.spark.queues import ReservationReader
from leveret.spark.server import Origin, SparkServer
from leveret.spark.source import LeveretSource
from tests.protocols.rest.world import RestWorld
from tests.waiting import wait_until

MINUTE_S = 60


@pytest.fixture
def clock() -> leveret.ManualClock:
    return leveret.ManualClock()


@pytest.fixture
def world(clock: leveret.ManualClock) -> Iterator[RestWorld]:
    """A broker in memory behind HTTP, with a queue of ten messages."""
    with leveret.open(clock=clock) as broker, RestWorld(broker) as running:
        broker.queue("orders", max_priority=9).send_many([b"%d" % number for number in range(10)])
        yield running
        Origin(running.url, running.token).server.close()


Make = Callable[..., ReservationReader]


@pytest.fixture
def query(world: RestWorld) -> Iterator[Make]:
    """Makes the driver's side of streaming queries."""
    made: list[ReservationReader] = []

    def make(**options: str) -> ReservationReader:
        reader = source(world, **options).streamReader(None)  # type: ignore[arg-type]
        assert isinstance(reader, ReservationReader)
        made.append(reader)
        return reader

    yield make
    for reader in made:
        reader.stop()


def source(world: RestWorld, **options: str) -> LeveretSource:
    return LeveretSource({"url": world.url, "token": world.token, "queue": "orders", **options})


def rows(reader: Any, partitions: list[InputPartition]) -> list[dict[str, Any]]:
    """What tasks would read, each in its own copy of the reader."""
    task = pickle.loads(pickle.dumps(reader))
    return [row for each in partitions for batch in task.read(each) for row in batch.to_pylist()]


def values(reader: Any, partitions: list[InputPartition]) -> str:
    return "".join(row["value"].decode() for row in rows(reader, partitions))


def test_a_queue_is_a_table_and_stays_as_it_is(world: RestWorld) -> None:
    reader = source(world).reader(None)  # type: ignore[arg-type]
    found = rows(reader, list(reader.partitions()))
    assert [row["value"] for row in found] == [b"%d" % number for number in range(10)]
    assert {(row["queue"], row["delivery_count"], row["redelivered"]) for row in found} == {("orders", 0, False)}
    assert world.broker.queue("orders").stats().ready == 10


def test_a_table_of_dead_letters_tells_where_they_died(world: RestWorld) -> None:
    world.broker.queue("graveyard")
    world.broker.queue("failing", dead_letter="graveyard").send(b"bad", headers={"a": 1})
    world.broker.queue("failing", dead_letter="graveyard").receive()[0].reject()
    reader = source(world, queue="graveyard", columns="value,x_death,headers").reader(None)  # type: ignore[arg-type]
    (row,) = rows(reader, list(reader.partitions()))
    assert (row["value"], row["x_death"][0]["queue"], row["x_death"][0]["reason"]) == (b"bad", "failing", "rejected")
    assert dict(row["headers"])["a"] == "1"


def test_options_of_a_table_are_asked_of_the_server(world: RestWorld, clock: leveret.ManualClock) -> None:
    clock.advance(MINUTE_S)
    world.broker.queue("orders").send(b"late")
    begin = datetime.fromtimestamp(clock.now_ms() / 1000, UTC) - timedelta(seconds=1)

    def found(**options: str) -> str:
        reader = source(world, **options).reader(None)  # type: ignore[arg-type]
        return values(reader, list(reader.partitions()))

    assert (found(since=begin.isoformat()), found(until=begin.isoformat())) == ("late", "0123456789")
    assert (found(routingkey="other"), found(routingkey="orders")) == ("", "0123456789late")


def test_a_stream_is_no_queue(world: RestWorld) -> None:
    world.broker.stream("clicks").send(b"1")
    reader = source(world, queue="clicks").reader(None)  # type: ignore[arg-type]
    with pytest.raises(NotSupported, match=r"'clicks' is a stream, no queue.*read it as a stream"):
        rows(reader, list(reader.partitions()))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("maxrecordpertrigger", "did you mean maxRecordsPerTrigger"),
        ("startingoffsets", "this is an option of stream"),
        ("nothing", "it has .*groupsTogether"),
    ],
)
def test_an_option_that_there_is_not_is_refused(world: RestWorld, name: str, hint: str) -> None:
    with pytest.raises(InvalidArgument, match=f"queue have no option '{name}': {hint}"):
        source(world, **{name: "1"}).schema()
    with pytest.warns(UserWarning, match="pushdown does nothing"):
        source(world, pushdown="true").schema()


def test_batches_follow_each_other_and_each_is_read_the_same_again(world: RestWorld, query: Make) -> None:
    reader = query(maxrecordspertrigger="4")
    start = reader.initialOffset()
    seen = []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        parts = reader.partitions(start, end)
        assert reader.latestOffset(start, ReadMaxRows(4)) == end
        assert values(reader, parts) == values(reader, reader.partitions(start, end))
        seen.append(values(reader, parts))
        start = end
    assert seen == ["0123", "4567", "89"]
    assert (world.broker.queue("orders").stats().acked, world.broker.queue("orders").stats().leased) == (10, 0)


def test_a_new_process_goes_on_with_what_the_checkpoint_says(world: RestWorld, query: Make) -> None:
    first = query()
    start = first.initialOffset()
    end = first.latestOffset(start, ReadMaxRows(9))
    again = query()
    assert values(again, again.partitions(start, end)) == "0123456789"
    assert again.latestOffset(end, ReadMaxRows(9)) == end
    assert world.broker.queue("orders").stats().acked == 10


def test_tasks_share_a_batch(query: Make) -> None:
    reader = query(minpartitions="3", maxrecordsperpartition="2")
    start = reader.initialOffset()
    parts = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    assert [values(reader, [part]) for part in parts] == ["01", "23", "45", "67", "89"]
    assert list(reader.read(InputPartition(None))) == []


def test_executors_share_a_batch_of_more_than_a_hundred_thousand(world: RestWorld, query: Make) -> None:
    count = 120_000
    for _ in range(0, count, 10_000):
        world.broker.queue("many").send_many([b"x"] * 10_000)
    reader = query(queue="many", columns="offset", maxrecordspertrigger=str(count), minpartitions="4")
    start = reader.initialOffset()
    parts = reader.partitions(start, reader.latestOffset(start, reader.getDefaultReadLimit()))
    found = [[row["offset"] for row in rows(reader, [part])] for part in parts]
    assert [len(each) for each in found] == [count // 4] * 4
    assert len({offset for each in found for offset in each}) == count


def test_available_now_ends_with_what_was_there(world: RestWorld, query: Make) -> None:
    reader = query(maxrecordspertrigger="6")
    reader.prepareForTriggerAvailableNow()
    start, seen = reader.initialOffset(), ""
    while (end := reader.latestOffset(start, ReadMaxRows(6))) != start:
        seen += values(reader, reader.partitions(start, end))
        world.broker.queue("orders").send(b"x")
        start = end
    assert seen == "0123456789"
    assert world.broker.queue("orders").stats().acked == 10
    assert reader.reportLatestOffset() == {"reservation": start["reservation"], "waiting": 2}


def test_a_small_batch_waits_for_more(world: RestWorld, query: Make) -> None:
    reader = query(minrecordspertrigger="12", maxtriggerdelay="1h")
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadMaxRows(99)) == start
    world.broker.queue("orders").send_many([b"x", b"y"])
    assert values(reader, reader.partitions(start, reader.latestOffset(start, ReadMaxRows(99)))) == "0123456789xy"
    impatient = query(minrecordspertrigger="12", maxtriggerdelay="0s", group="other")
    world.broker.queue("orders").send(b"z")
    end = impatient.latestOffset({"reservation": 0}, ReadMaxRows(99))
    assert values(impatient, impatient.partitions({"reservation": 0}, end)) == "z"


def test_bytes_bound_a_batch(query: Make) -> None:
    reader = query(maxbytespertrigger="1")
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    assert values(reader, reader.partitions({"reservation": 0}, end)) == "0"


@pytest.mark.parametrize("lease", [None, "60s"])
def test_a_query_that_stops_for_long_goes_on_as_if_it_had_not(
    world: RestWorld, query: Make, clock: leveret.ManualClock, lease: str | None
) -> None:
    """Batch 0 is written, batch 1 is not, and neither is read twice: with a lease that has ended, either."""
    options = {"maxrecordspertrigger": "4"} | ({} if lease is None else {"lease": lease})
    first = query(**options)
    start = first.initialOffset()
    one = first.latestOffset(start, ReadMaxRows(4))
    first.stop()
    for _ in range(2):
        clock.advance(100 * MINUTE_S)
        again = query(**options)
        assert values(again, again.partitions(start, one)) == "0123"  # the query stopped before it noted batch 0
        again.stop()
    clock.advance(100 * MINUTE_S)
    third = query(**options)
    two = third.latestOffset(one, ReadMaxRows(4))
    assert values(third, third.partitions(one, two)) == "4567"
    assert world.broker.queue("orders").stats().acked == 4
    assert world.broker.queue("orders").stats().ready == 2


def test_a_reservation_that_an_operator_released_fails_the_batch_and_loses_nothing(
    world: RestWorld, query: Make
) -> None:
    reader = query()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(9))
    parts = reader.partitions(start, end)
    assert world.call("DELETE /queues/orders/reservations/spark").status == 204
    with pytest.raises(NotFound, match="reserve first"):
        rows(reader, parts)
    with pytest.raises(NotFound, match=r"an operator released it.*failOnDataLoss"):
        reader.partitions(start, end)
    with pytest.raises(PreconditionFailed, match="an operator released"):
        reader.latestOffset(end, ReadMaxRows(99))
    assert world.broker.queue("orders").stats().ready == 10
    lenient = query(failondataloss="false")
    assert lenient.partitions(start, end) == []
    assert rows(lenient, parts) == []
    after = lenient.latestOffset({"reservation": 7}, ReadMaxRows(99))
    assert values(lenient, lenient.partitions({"reservation": 7}, after)) == "0123456789"


def test_the_process_of_the_driver_keeps_a_reservation(
    world: RestWorld, query: Make, clock: leveret.ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "RENEWALS", 100)
    reader = query(lease="1s")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(9))
    with world.broker.runtime as core:
        group = core.reservations.get(core.topology.vhost("/").queues["orders"], "spark")
    for _ in range(3):
        clock.advance(0.9)
        renewed_ms = clock.now_ms() + 1_000
        wait_until(lambda: group.expires_ms == renewed_ms)  # noqa: B023
    assert values(reader, reader.partitions(start, end)) == "0123456789"


def test_somebody_else_in_the_same_group_is_noticed(query: Make) -> None:
    one, other = query(maxrecordspertrigger="3"), query(maxrecordspertrigger="3")
    start = one.initialOffset()
    end = one.latestOffset(start, ReadMaxRows(3))
    one.latestOffset(one.latestOffset(end, ReadMaxRows(3)), ReadMaxRows(3))
    with pytest.raises(PreconditionFailed, match="choose another group"):
        other.latestOffset(end, ReadMaxRows(3))
    lenient = query(failondataloss="false")
    assert lenient.latestOffset(end, ReadMaxRows(3)) == {"reservation": end["reservation"] + 2}


def test_a_large_body_is_fetched(tmp_path: Any) -> None:
    with leveret.open(tmp_path, blob_bytes=1_000) as broker, RestWorld(broker) as running:
        broker.queue("orders").send(b"x" * 5_000)
        reader = source(running).reader(None)  # type: ignore[arg-type]
        (row,) = rows(reader, list(reader.partitions()))
        assert (row["value"], row["bytes"]) == (b"x" * 5_000, 5_000)
        Origin(running.url, running.token).server.close()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"maxrecordspertrigger": "0"}, "maxRecordsPerTrigger='0': give a whole number"),
        ({"maxtriggerdelay": "soon"}, "give a time span"),
        ({"failondataloss": "perhaps"}, "give true or false"),
        ({"columns": "nothing"}, "name each once"),
        ({"queue": ""}, "the option queue is missing"),
        ({"url": "ftp://127.0.0.1"}, "a server is at http://HOST:PORT"),
        ({"cafile": "nowhere"}, "name a file of certificates"),
    ],
)
def test_options_that_make_no_sense_are_named(query: Make, options: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        query(**options).initialOffset()


def test_what_the_server_refuses_is_raised_and_one_that_is_away_is_waited_for(world: RestWorld) -> None:
    missing = source(world, queue="missing").reader(None)  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="no queue 'missing'"):
        rows(missing, list(missing.partitions()))
    away = SparkServer(Origin("http://127.0.0.1:1", retry_s=0.2))
    with pytest.raises(Unreachable, match="did not answer for 0 s: cannot connect"):
        away.ask("GET", "/queues")


def test_the_journal_is_no_stream(tmp_path: Any) -> None:
    with pytest.raises(InvalidArgument, match="name a stream, or a queue"):
        LeveretSource({"path": str(tmp_path)}).streamReader(None)  # type: ignore[arg-type]


def test_a_task_that_runs_twice_or_is_given_up_reads_the_same(query: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret.protocols.rest.reservations.PAGE_BYTES", 1)
    monkeypatch.setattr("leveret.protocols.rest.reservations.STEP", 1)
    reader = query(minpartitions="1")
    start = reader.initialOffset()
    (part,) = reader.partitions(start, reader.latestOffset(start, ReadMaxRows(99)))
    given_up, other = reader.read(part), reader.read(part)
    assert [next(given_up).to_pylist(), next(given_up).to_pylist()] == [
        next(other).to_pylist(),
        next(other).to_pylist(),
    ]
    given_up.close()  # type: ignore[attr-defined]
    assert "".join(row["value"].decode() for batch in other for row in batch.to_pylist()) == "23456789"
    assert values(reader, [part]) == "0123456789"


def test_one_task_has_all_messages_of_a_group_in_their_order(world: RestWorld, query: Make) -> None:
    queue = world.broker.queue("grouped", groups="fifo-batch")
    for number in range(40):
        queue.send(b"%d" % number, group=f"g{number % 7}" if number % 4 else None)
    reader = query(queue="grouped", groupstogether="true", minpartitions="3")
    start = reader.initialOffset()
    tasks = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    found = [[(row["message_group_id"], int(row["value"])) for row in rows(reader, [task])] for task in tasks]
    assert len(found) == 3
    assert sorted(number for each in found for _, number in each) == list(range(40))
    owners = [{group for group, _ in each if group is not None} for each in found]
    assert sum(len(groups) for groups in owners) == len(set.union(*owners)) == 7
    for group in set.union(*owners):
        numbers = [number for each in found for name, number in each if name == group]
        assert numbers == sorted(numbers)


def test_a_queue_of_another_virtual_host_is_read(world: RestWorld, query: Make) -> None:
    with world.broker.runtime:
        world.access.declare_vhost("shop")
        world.access.set_permission("guest", "shop", ".*", ".*", ".*")
    world.ok("PUT /queues/orders?vhost=shop")
    world.ok("POST /queues/orders/messages?vhost=shop", {"payload": "there"})
    table = source(world, vhost="shop").reader(None)  # type: ignore[arg-type]
    assert [(row["vhost"], row["value"]) for row in rows(table, list(table.partitions()))] == [("shop", b"there")]
    reader = query(vhost="shop")
    start = reader.initialOffset()
    assert values(reader, reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))) == "there"
    assert world.broker.queue("orders").stats().ready == 10
    Origin(world.url, world.token, vhost="shop").server.close()
