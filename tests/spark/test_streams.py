"""Streams read by the objects that Spark would call, without Spark."""

import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.streaming.listener import SourceProgress

import leveret
from leveret.core.errors import DamagedJournal, InvalidArgument, NotFound, NotSupported, WrongKey
from leveret.spark import streams
from leveret.spark.live import ServedStream
from leveret.spark.progress import lag
from leveret.spark.server import Origin
from leveret.spark.source import LeveretSource
from leveret.spark.stream_files import StoredStream, StoredStreams
from leveret.spark.stream_query import OffsetReader
from leveret.spark.streams import BlockGroup
from tests.protocols.rest.world import RestWorld

KEY = "33" * 32


@pytest.fixture
def clock() -> leveret.ManualClock:
    return leveret.ManualClock()


@pytest.fixture
def world(clock: leveret.ManualClock, tmp_path: Path) -> Iterator[RestWorld]:
    """A broker on files behind HTTP, with a stream of two partitions: 30 records and 10."""
    with leveret.open(tmp_path, clock=clock, sync="never") as broker, RestWorld(broker) as running:
        stream = broker.stream("clicks", partitions=2)
        keys = {stream.send(b"probe", key=key).partition: key for key in "abcdefgh"}
        stream.delete()
        stream = broker.stream("clicks", partitions=2)
        stream.send_many([b"%d" % number for number in range(30)], key=keys[0])
        stream.send_many([b"%d" % number for number in range(30, 40)], key=keys[1])
        yield running
        Origin(running.url, running.token).server.close()


@pytest.fixture(params=["server", "files"])
def options(request: pytest.FixtureRequest, world: RestWorld, tmp_path: Path) -> dict[str, str]:
    """The two ways to the same stream."""
    if request.param == "files":
        return {"path": str(tmp_path), "stream": "clicks"}
    return {"url": world.url, "token": world.token, "stream": "clicks"}


def table(options: dict[str, str], **more: str) -> list[dict[str, Any]]:
    """The rows of a range."""
    reader = LeveretSource({**options, **more}).reader(None)  # type: ignore[arg-type]
    return rows(reader, list(reader.partitions()))


def rows(reader: Any, partitions: list[InputPartition]) -> list[dict[str, Any]]:
    """What tasks would read, each in its own copy of the reader."""
    task = pickle.loads(pickle.dumps(reader))
    return [row for each in partitions for batch in task.read(each) for row in batch.to_pylist()]


def values(found: list[dict[str, Any]]) -> list[int]:
    return [int(row["value"]) for row in found]


def offsets(found: dict[str, Any]) -> dict[str, int]:
    """Offsets without the id of the stream."""
    return {name: value for name, value in found.items() if name != "id"}


def query(options: dict[str, str], **more: str) -> OffsetReader:
    """The driver's side of a streaming query."""
    reader = LeveretSource({**options, **more}).streamReader(None)  # type: ignore[arg-type]
    assert isinstance(reader, OffsetReader)
    return reader


def first_segment(world: RestWorld, path: Path) -> Path:
    """The file with the first records of partition 0."""
    return min((path / "streams" / str(world.broker.stream("clicks").core.id) / "0").glob("stream-*.log"))


def test_a_stream_is_a_table(options: dict[str, str]) -> None:
    found = table(options)
    assert values(found) == list(range(40))
    assert [(row["partition"], row["offset"]) for row in found] == [(0, n) for n in range(30)] + [
        (1, n) for n in range(10)
    ]
    assert {row["stream"] for row in found} == {"clicks"}


def test_a_record_tells_all_that_it_was_sent_with(world: RestWorld, options: dict[str, str]) -> None:
    stream = world.broker.stream("clicks")
    sent = stream.send(b"", key="k", filter="red", producer="p", sequence=7, headers={"a": 1})
    now_ms = world.broker.runtime.core.now_ms
    start = '{"0": 30, "1": 10}'
    (row,) = table(options, startingoffsets=start)
    assert (row["value"], row["key"], row["filter_value"], row["producer"], row["sequence"]) == (
        b"",
        "k",
        "red",
        "p",
        7,
    )
    assert (row["partition"], row["offset"], row["bytes"]) == (*sent, 0)
    assert (row["exchange"], row["routing_key"]) == ("", "clicks")
    assert row["enqueued_at"] == datetime.fromtimestamp(now_ms / 1000, UTC)
    assert dict(row["headers"])["a"] == "1"


def test_only_wanted_columns_are_made(options: dict[str, str]) -> None:
    (row,) = table(options, columns="offset, partition", startingoffsets='{"0": 29, "1": 10}')
    assert row == {"offset": 29, "partition": 0}


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("earliest", "earliest", []),
        ("latest", "latest", []),
        ('{"0": 28, "1": 9}', "latest", [28, 29, 39]),
        ("earliest", '{"0": 2, "1": 1}', [0, 1, 30]),
        ('{"0": 5, "1": 5}', '{"0": 2, "1": 7}', [35, 36]),
        ("2100-01-01T00:00:00", "latest", []),
        ("1999-01-01", '{"0": 1, "1": 0}', [0]),
        ('{"0": -1, "1": 8}', '{"clicks": {"0": -1}}', [38, 39]),
        ('{"0": 29}', "latest", [29, *range(30, 40)]),
        ('{"0": 29, "default": -1}', "latest", [29]),
        ('{"0": "2100-01-01", "1": -2}', '{"1": 1}', [30]),
    ],
)
def test_a_range_is_given_by_offsets_or_times(
    options: dict[str, str], start: str, end: str, expected: list[int]
) -> None:
    assert values(table(options, startingoffsets=start, endingoffsets=end)) == expected


def test_a_time_is_an_offset(world: RestWorld, options: dict[str, str], clock: leveret.ManualClock) -> None:
    clock.advance(60)
    world.broker.stream("clicks").send(b"99", key="late")
    begin = datetime.fromtimestamp(clock.now_ms() / 1000 - 1, UTC).isoformat()
    assert values(table(options, startingoffsets=begin)) == [99]


def test_tasks_are_cut_as_asked_for(options: dict[str, str]) -> None:
    for more, count in ({}, 2), ({"minpartitions": "4"}, 4), ({"maxrecordsperpartition": "7"}, 5 + 2):
        reader = LeveretSource({**options, **more}).reader(None)  # type: ignore[arg-type]
        parts = list(reader.partitions())
        assert len(parts) == count
        assert values(rows(reader, parts)) == list(range(40))
    assert list(reader.read(InputPartition(None))) == []


def test_batches_follow_each_other_within_their_limit(options: dict[str, str]) -> None:
    reader = query(options, startingoffsets="earliest", maxrecordspertrigger="15")
    start, sizes, seen = reader.initialOffset(), [], []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        found = values(rows(reader, reader.partitions(start, end)))
        assert found == values(rows(reader, reader.partitions(start, end)))
        sizes.append(len(found))
        seen += found
        start = end
    assert (sizes, sorted(seen)) == ([15, 15, 10], list(range(40)))
    assert offsets(reader.latestOffset({"0": 0, "1": 0}, ReadAllAvailable())) == {"0": 30, "1": 10}


def test_a_consumer_group_shows_how_far_a_query_is(world: RestWorld) -> None:
    at = {"url": world.url, "token": world.token, "stream": "clicks"}
    reader = query(at, startingoffsets="earliest", maxrecordspertrigger="20", group="copy")
    stream = world.broker.stream("clicks")
    start = reader.initialOffset()
    seen = []
    for _ in range(3):
        end = reader.latestOffset(start, ReadMaxRows(20))
        seen.append(sum(stream.group("copy").lag().values()))
        start = end
    assert seen == [40, 20, 0]
    stream.send_many([b"40"] * 5)
    restarted = query(at, startingoffsets="latest", group="copy")
    assert sum(stream.group("copy").lag().values()) == 5
    restarted.latestOffset(restarted.initialOffset(), ReadAllAvailable())
    assert sum(stream.group("copy").lag().values()) == 0


def test_a_group_needs_a_server(world: RestWorld, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="give its url"):
        query({"path": str(tmp_path), "stream": "clicks", "group": "copy"})


@pytest.mark.parametrize(
    ("end", "latest", "expected"),
    [
        ('{"0": 40, "1": 5, "id": 9}', '{"0": 50, "1": 5, "id": 9}', 10),
        ('{"a": {"0": 1, "id": 3}}', '{"a": {"0": 4, "id": 3}, "b": {"0": 2, "id": 4}}', 5),
        ('{"reservation": 3}', '{"reservation": 3, "waiting": 7}', 7),
        (None, '{"0": 50}', None),
        ('{"0": 50}', None, None),
    ],
)
def test_progress_tells_the_lag(end: str, latest: str, expected: int | None) -> None:
    assert lag(SourceProgress("leveret", "", end, latest, 0, 0.0, 0.0, {})) == expected


def test_a_query_begins_at_the_end_unless_told_otherwise(world: RestWorld, options: dict[str, str]) -> None:
    reader = query(options)
    assert reader.initialOffset() == reader.reportLatestOffset()
    assert offsets(reader.initialOffset()) == {"0": 30, "1": 10}
    assert isinstance(reader.getDefaultReadLimit(), ReadAllAvailable)


def test_available_now_ends_with_what_was_there(world: RestWorld, options: dict[str, str]) -> None:
    reader = query(options, startingoffsets="earliest", maxrecordspertrigger="25")
    reader.prepareForTriggerAvailableNow()
    start, seen = reader.initialOffset(), []
    while (end := reader.latestOffset(start, ReadMaxRows(25))) != start:
        seen += values(rows(reader, reader.partitions(start, end)))
        world.broker.stream("clicks").send(b"1000")
        start = end
    assert sorted(seen) == list(range(40))
    assert sum(offsets(reader.reportLatestOffset()).values()) == 42


def test_a_small_batch_waits_for_more(world: RestWorld, options: dict[str, str]) -> None:
    reader = query(options, minrecordspertrigger="2", maxtriggerdelay="1h")
    impatient = query(options, minrecordspertrigger="2", maxtriggerdelay="0s")
    begin = reader.initialOffset()
    assert reader.latestOffset(begin, ReadAllAvailable()) == begin
    world.broker.stream("clicks").send(b"40")
    assert reader.latestOffset(begin, ReadAllAvailable()) == begin
    assert sum(offsets(impatient.latestOffset(begin, ReadAllAvailable())).values()) == 41
    world.broker.stream("clicks").send(b"41")
    assert sum(offsets(reader.latestOffset(begin, ReadAllAvailable())).values()) == 42


def test_bytes_bound_a_batch(world: RestWorld, options: dict[str, str]) -> None:
    stream = world.broker.stream("large")
    for _ in range(40):
        stream.send_many([bytes(10_000)] * 5)
    reader = query({**options, "stream": "large"}, startingoffsets="earliest", maxbytespertrigger="500000")
    start, sizes = reader.initialOffset(), []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        sizes.append(len(rows(reader, reader.partitions(start, end))))
        start = end
    assert sum(sizes) == 200
    assert len(sizes) >= 3
    assert max(sizes) <= 110


def test_a_batch_is_cut_into_arrow_batches_of_bounded_size(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "BATCH_ROWS", 1)
    assert values(table(options)) == list(range(40))


def test_lost_records_end_a_query_unless_that_is_allowed(world: RestWorld, options: dict[str, str]) -> None:
    stream = world.broker.stream("short", max_bytes=5_000, segment_bytes=2_000)
    for number in range(100):
        stream.send(b"%0100d" % number)
    world.broker.runtime.streams.retain(world.broker.runtime.core.now_ms)
    first = stream.earliest()
    assert first > 0
    short = {**options, "stream": "short"}
    reader, lenient = query(short), query(short, failondataloss="false")
    with pytest.raises(NotFound, match=r"partition 0 of stream .short. has offsets .*failOnDataLoss"):
        reader.partitions({"0": 0}, {"0": 100})
    assert values(rows(lenient, lenient.partitions({"0": 0}, {"0": 100}))) == list(range(first, 100))
    gone = streams.SpanPartition("short", 0, 0, 100)
    with pytest.raises(NotFound, match=r"offset 0 is gone.*failOnDataLoss"):
        rows(reader, [gone])
    assert values(rows(lenient, [gone])) == list(range(first, 100))


def test_a_stream_that_was_made_anew_ends_a_query_unless_that_is_allowed(
    world: RestWorld, options: dict[str, str]
) -> None:
    ahead = {"0": 1_000, "1": 1_000}
    with pytest.raises(NotFound, match=r"ends at offset 30, before 1000.*failOnDataLoss"):
        query(options).latestOffset(ahead, ReadAllAvailable())
    lenient = query(options, failondataloss="false")
    end = lenient.latestOffset(ahead, ReadAllAvailable())
    assert values(rows(lenient, lenient.partitions(ahead, end))) == []
    assert lenient.latestOffset(end, ReadAllAvailable()) == end


def test_a_stream_of_other_records_under_the_same_name_is_noticed(world: RestWorld, options: dict[str, str]) -> None:
    """It has as many records as the checkpoint knows, and more."""
    reader, lenient = query(options), query(options, failondataloss="false")
    start = reader.initialOffset()
    world.broker.stream("clicks").delete()
    stream = world.broker.stream("clicks", partitions=2)
    for number in range(100, 200):
        stream.send(b"%d" % number, key=str(number))
    with pytest.raises(NotFound, match=r"'clicks' was deleted and made anew.*failOnDataLoss"):
        reader.latestOffset(start, ReadAllAvailable())
    with pytest.raises(NotFound, match="made anew after this batch was planned"):
        reader.partitions({**start, "0": 0}, start)
    assert lenient.partitions({**start, "0": 0, "1": 0}, start) == []
    end = lenient.latestOffset(start, ReadAllAvailable())
    assert sorted(values(rows(lenient, lenient.partitions(start, end)))) == list(range(100, 200))
    assert lenient.latestOffset(end, ReadAllAvailable()) == end


def test_a_time_for_each_partition_is_an_offset(world: RestWorld, options: dict[str, str], clock: Any) -> None:
    clock.advance(60)
    now_ms = clock.now_ms()
    world.broker.stream("clicks").send(b"99", key="late")
    spots = f'{{"0": {now_ms - 1_000}, "1": {now_ms - 1_000}}}'
    assert values(table(options, startingoffsetsbytimestamp=spots)) == [99]
    assert sorted(values(table(options, endingoffsetsbytimestamp=spots))) == list(range(40))


@pytest.fixture
def several(world: RestWorld, options: dict[str, str]) -> dict[str, str]:
    """The options of both places, for three streams."""
    for name, number in ("views", 50), ("orders", 60):
        world.broker.stream(name).send_many([b"%d" % each for each in range(number, number + 5)])
    del options["stream"]
    return options


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"streams": "clicks, views"}, [*range(40), *range(50, 55)]),
        ({"streampattern": "(click|order)s"}, [*range(40), *range(60, 65)]),
        ({"assign": '{"clicks": [1], "views": [0]}'}, [*range(30, 40), *range(50, 55)]),
        ({"streams": "clicks,views", "startingoffsets": '{"clicks": {"0": 29, "default": -1}}'}, [29, *range(50, 55)]),
    ],
)
def test_several_streams_are_one_table(several: dict[str, str], more: dict[str, str], expected: list[int]) -> None:
    found = table(several, **more)
    assert sorted(values(found)) == expected
    assert {row["stream"] for row in found if 50 <= int(row["value"]) < 60} <= {"views"}


def test_a_query_on_several_streams_goes_on_and_finds_new_ones(world: RestWorld, several: dict[str, str]) -> None:
    reader = query(several, streampattern="clicks|v.*", startingoffsets="earliest", maxrecordspertrigger="20")
    start, seen = reader.initialOffset(), []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        found = rows(reader, reader.partitions(start, end))
        assert found == rows(reader, reader.partitions(start, end))
        assert len(found) <= 20
        seen += values(found)
        if len(seen) == 20:
            world.broker.stream("visits").send_many([b"70", b"71"])
        start = end
    assert sorted(seen) == [*range(40), *range(50, 55), 70, 71]
    assert offsets(start["visits"]) == {"0": 2}
    if "url" in several:  # files go later
        world.broker.stream("visits").delete()
        with pytest.raises(NotFound, match=r"stream 'visits' is gone.*failOnDataLoss"):
            reader.latestOffset(start, ReadAllAvailable())
    with pytest.raises(InvalidArgument, match="checkpoint is of a query on one stream"):
        reader.latestOffset({"0": 1}, ReadAllAvailable())


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"streampattern": "("}, "give a regular expression"),
        ({"assign": "[]"}, "give partitions of each stream"),
        ({"assign": '{"clicks": [9]}'}, "stream 'clicks' has no partition 9"),
        ({"streams": "clicks,clicks"}, "name each once"),
    ],
)
def test_choices_that_make_no_sense_are_refused(several: dict[str, str], more: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        table(several, **more)


def test_a_block_that_changed_on_its_way_is_named(world: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"url": world.url, "token": world.token, "stream": "clicks"}
    whole = ServedStream.piece

    def changed(place: ServedStream, span: Any) -> BlockGroup:
        piece = whole(place, span)
        return piece._replace(data=piece.data[:100] + b"\xff" + piece.data[101:])

    monkeypatch.setattr(ServedStream, "piece", changed)
    with pytest.raises(
        DamagedJournal, match=r"/queues/clicks/blocks sent of partition 0 from offset 0 on is damaged 0"
    ):
        table(options)


def test_damage_in_a_segment_names_the_file_and_the_offset(
    world: RestWorld, options: dict[str, str], tmp_path: Path
) -> None:
    segment = first_segment(world, tmp_path)
    with segment.open("r+b") as file:
        file.seek(64 + 80)
        file.write(b"\xff")
    place = query(options).source.broker.stream("clicks")
    if isinstance(place, StoredStream):
        world.stop()
        world.broker.close()  # so that an index speaks of all of it
    match = str(segment) if isinstance(place, StoredStream) else segment.name
    with pytest.raises(DamagedJournal, match=rf"{match} is damaged at offset 64"):
        rows(query(options), [streams.SpanPartition("clicks", 0, 0, 30)])


def test_files_of_a_broker_that_is_gone_are_read_up_to_the_last_whole_block(world: RestWorld, tmp_path: Path) -> None:
    segment = first_segment(world, tmp_path)
    with segment.open("ab") as file:
        file.write(b"LBLK" + bytes(70))
    assert values(table({"path": str(tmp_path), "stream": "clicks"})) == list(range(40))


def test_encrypted_files_need_their_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPELINE_KEY", KEY)
    with leveret.open(tmp_path, encryption_key_env="PIPELINE_KEY") as broker:
        broker.stream("clicks").send(b"1")
    options = {"path": str(tmp_path), "stream": "clicks"}
    assert values(table(options, encryption_key_env="PIPELINE_KEY")) == [1]
    with pytest.raises(WrongKey):
        table(options)


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"startingoffsets": '{"2": 0}'}, "stream 'clicks' has no partition 2"),
        ({"startingoffsets": '{"views": {"0": 0}}'}, "stream 'views' has no partition 0, or is not read"),
        ({"startingoffsets": '{"0": -3}'}, "-3 of partition 0 of 'clicks': give earliest, latest"),
        ({"startingoffsets": "latest", "startingoffsetsbytimestamp": "{}"}, "give one of them"),
        ({"startingoffset": "latest"}, "did you mean startingOffsets"),
        ({"kafka.requesttimeout": "1s"}, "did you mean requestTimeout"),
        ({"kafka.group.id": "1s"}, "no option .kafka.group.id"),
        ({"streams": "a,b"}, "give one of stream, streams"),
        ({"startingoffsets": '{"0": 1'}, "give earliest, latest"),
        ({"startingoffsets": "soon"}, "give a time such as"),
        ({"minpartitions": "none"}, "give a whole number"),
        ({"columns": "nothing"}, "name each once"),
    ],
)
def test_options_that_make_no_sense_are_named(options: dict[str, str], more: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        table(options, **more)


def test_a_queue_is_no_stream_and_what_is_not_there_is_named(world: RestWorld, tmp_path: Path) -> None:
    world.broker.queue("orders")
    served = {"url": world.url, "token": world.token}
    with pytest.raises(NotSupported, match="read it by reservations"):
        table({**served, "stream": "orders"})
    with pytest.raises(NotFound, match="no queue 'missing'"):
        table({**served, "stream": "missing"})
    with pytest.raises(NotFound, match="has no stream 'missing'"):
        table({"path": str(tmp_path), "stream": "missing"})


def test_a_stream_in_a_database_is_read_from_its_server() -> None:
    with pytest.raises(InvalidArgument, match="give its url in place of a path"):
        StoredStreams.of({"path": "postgresql://host/db", "stream": "clicks"})
