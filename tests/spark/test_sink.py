"""The writers as Spark calls them, without Spark: tasks that fail, are repeated or are late; commits that are lost."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import BooleanType, DateType, DoubleType, LongType, MapType, StringType, StructType

import leveret
from leveret.core.errors import InvalidArgument, PreconditionFailed, QueueNotFound, Unreachable
from leveret.spark import row_groups, sink
from leveret.spark.messages import HEADER_TYPES, TYPED_HEADERS
from leveret.spark.server import Origin
from leveret.spark.sink import BatchWriter, StagedPart, StreamWriter
from leveret.spark.source import LeveretSource
from tests.client.flaky import Flaky
from tests.ingest.conftest import received
from tests.protocols.rest.world import RestWorld
from tests.waiting import wait_until

SCHEMA = StructType().add("value", "binary")
CHECKPOINT = {"checkpointlocation": "hdfs://somewhere/checkpoint"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RestWorld]:
    with leveret.open(tmp_path / "data", sync="never") as broker, RestWorld(broker) as running:
        broker.queue("orders")
        yield running
        close_clients()
        Origin(running.url, running.token).server.close()


def close_clients() -> None:
    """Let go of the connections that a process of Spark would keep."""
    while sink.CLIENTS:
        sink.CLIENTS.popitem()[1].close()


def source(world: RestWorld, **options: str) -> LeveretSource:
    return LeveretSource({"url": world.url, "token": world.token, "queue": "orders", **options})


def batch_writer(world: RestWorld, schema: StructType = SCHEMA, **options: str) -> BatchWriter:
    return source(world, **options).writer(schema, False)


def stream_writer(world: RestWorld, **options: str) -> StreamWriter:
    return source(world, **{**CHECKPOINT, **options}).streamWriter(SCHEMA, False)


def rows(*values: bytes) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"value": list(values)}, schema=pa.schema([("value", pa.binary())]))


def test_a_write_is_published_in_the_order_of_its_partitions(world: RestWorld) -> None:
    writer = batch_writer(world)
    second, first = writer.write(rows(b"3")), writer.write(rows(b"1", b"2"))
    writer.commit([first, second, writer.write(iter([]))])
    assert received(world.broker.queue("orders")) == [b"1", b"2", b"3"]


def test_two_writes_are_two_and_a_commit_that_is_repeated_is_one(world: RestWorld) -> None:
    for _ in range(2):
        writer = batch_writer(world)
        messages: list[WriterCommitMessage | None] = [writer.write(rows(b"x"))]
        writer.commit(messages)
        writer.commit(messages)
    assert received(world.broker.queue("orders")) == [b"x", b"x"]


def test_a_speculative_attempt_that_lost_is_not_published(world: RestWorld) -> None:
    writer = stream_writer(world)
    writer.write(rows(b"1"))
    writer.commit([writer.write(rows(b"1"))], 0)
    assert received(world.broker.queue("orders")) == [b"1"]


def test_a_replayed_batch_is_published_once_and_an_abort_undoes_nothing(world: RestWorld) -> None:
    first = stream_writer(world)
    messages: list[WriterCommitMessage | None] = [first.write(rows(b"1"))]
    first.commit(messages, 0)
    first.abort(messages, 0)
    restarted = stream_writer(world)
    restarted.commit([restarted.write(rows(b"1"))], 0)
    restarted.commit([restarted.write(rows(b"2"))], 1)
    assert received(world.broker.queue("orders")) == [b"1", b"2"]


def test_a_task_that_fails_leaves_nothing_behind(world: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_groups, "PIECE_BYTES", 1)

    def failing() -> Iterator[pa.RecordBatch]:
        yield from rows(b"1")
        raise RuntimeError("the task fails")

    writer = stream_writer(world, sinkid="s")
    writer.commit([], 0)
    with pytest.raises(RuntimeError):
        writer.write(failing())
    staged = writer.write(rows(b"1"))
    assert world.ok("GET /sinks")["sinks"][0]["staged_bytes"] > 0
    writer.abort([None, staged], 1)
    assert world.ok("GET /sinks")["sinks"][0]["staged_bytes"] == 0
    with pytest.raises(leveret.NotFound):
        writer.commit([staged], 1)


def test_another_checkpoint_does_not_lose_its_batches_to_an_old_one(world: RestWorld, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for place, number in ((one, "1"), (two, "2")):
        place.mkdir()
        (place / "metadata").write_text(f'{{"id":"{number}"}}')
    writer = stream_writer(world, checkpointlocation=f"file://{one}")
    writer.commit([writer.write(rows(b"1"))], 0)
    (one / "metadata").write_text('{"id":"3"}')  # somebody has begun it anew
    writer = stream_writer(world, checkpointlocation=f"file://{one}")
    writer.commit([writer.write(rows(b"2"))], 0)
    assert received(world.broker.queue("orders")) == [b"1", b"2"]
    for place, refused in ((one, False), (two, True)):
        writer = stream_writer(world, sinkid="mine", checkpointlocation=str(place))
        messages: list[WriterCommitMessage | None] = [writer.write(rows(b"3"))]
        if refused:
            with pytest.raises(PreconditionFailed, match="another query"):
                writer.commit(messages, 0)
        else:
            writer.commit(messages, 0)


def test_lost_answers_are_asked_for_again(world: RestWorld) -> None:
    with Flaky(world.port) as proxy:
        writer = batch_writer(world, url=proxy.url)
        proxy.lose = 1
        staged = writer.write(rows(b"1"))
        proxy.lose = 1
        writer.commit([staged])
        close_clients()
    assert received(world.broker.queue("orders")) == [b"1"]


def test_a_commit_that_makes_no_progress_ends_with_an_error(world: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.ok("PUT /queues/small", {"max_length": 1, "overflow": "reject-publish"})
    writer = batch_writer(world, queue="small", committimeout="0.01")
    staged = writer.write(rows(b"1", b"2"))

    def stands_still_amid_it() -> bool:
        """On a slow machine it does so before the first row, too."""
        with pytest.raises(Unreachable, match="stands still after") as raised:
            writer.commit([staged])
        return "after 1 rows" in str(raised.value)

    with monkeypatch.context() as impatient:
        impatient.setattr("leveret.ingest.sinks.COMMIT_S", 0.05)
        wait_until(stands_still_amid_it)
    received(world.broker.queue("small"))
    writer.commit([staged])
    assert received(world.broker.queue("small")) == [b"2"]


def test_all_columns_arrive(world: RestWorld) -> None:
    world.ok("PUT /queues/rich", {"max_priority": 9})
    kinds: dict[str, tuple[Any, pa.DataType, Any]] = {
        "value": ("string", pa.string(), ["a", "skipped", None]),
        "queue": ("string", pa.string(), ["rich", "rich", "rich"]),
        "headers": (MapType(StringType(), StringType()), pa.map_(pa.string(), pa.string()), [{"k": "v"}, None, {}]),
        "priority": ("short", pa.int16(), [3, None, None]),
        "delay_ms": ("long", pa.int64(), [None, 3_600_000, None]),
        "ttl_ms": ("integer", pa.int32(), [60_000, None, None]),
        "message_id": ("string", pa.string(), ["m", None, "n"]),
        "timestamp": ("timestamp", pa.timestamp("us", tz="UTC"), [1_700_000_000_123_456, None, None]),
        "app_id": ("string", pa.string(), [None, None, None]),
    }
    schema = StructType()
    for name, (spark_type, _, _) in kinds.items():
        schema.add(name, spark_type)
    arrays = [
        pa.array([dict(v) if isinstance(v, dict) else v for v in values], kind) for _, kind, values in kinds.values()
    ]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(kinds))
    writer = LeveretSource({"url": world.url, "token": world.token}).writer(schema, False)
    writer.commit([writer.write(iter([batch.slice(0, 1), batch.slice(1)]))])
    first, second = world.broker.queue("rich").receive(5)
    assert (first.body, first.priority, first.headers, first.properties.message_id) == ("a", 3, {"k": "v"}, "m")
    assert (first.properties.timestamp, first.properties.expiration) == (1_700_000_000, "60000")
    assert (second.data, second.properties.message_id) == (b"", "n")
    assert [each.body for each in world.broker.queue("rich").scheduled()] == ["skipped"]


def written(world: RestWorld, schema: StructType, arrow: dict[str, pa.DataType], rows: list[dict[str, Any]]) -> None:
    writer = LeveretSource({"url": world.url, "token": world.token, "queue": "clicks"}).writer(schema, False)
    batch = pa.RecordBatch.from_pylist(rows, pa.schema([("value", pa.binary()), *arrow.items()]))
    writer.commit([writer.write(iter([batch]))])


def read(world: RestWorld, **options: str) -> list[dict[str, Any]]:
    reader = LeveretSource({"url": world.url, "token": world.token, **options}).reader(None)  # type: ignore[arg-type]
    read_batches: Iterator[Any] = (batch for each in reader.partitions() for batch in reader.read(each))
    return [row for batch in read_batches for row in batch.to_pylist()]


@pytest.mark.parametrize("more", [{}, {"headers": [("k", "v")]}])
def test_rows_of_a_key_are_in_one_partition(world: RestWorld, more: dict[str, Any]) -> None:
    """With headers beside it, each row is looked at for itself."""
    stream = world.broker.stream("clicks", partitions=4)
    keys = [None, "", *"abcdefgh" * 10]
    headers = dict.fromkeys(more, pa.map_(pa.string(), pa.string()))
    schema = StructType().add("value", "binary").add("key", "string")
    for name in more:
        schema.add(name, MapType(StringType(), StringType()))
    rows = [{"value": b"%d" % number, "key": key, **more} for number, key in enumerate(keys)]
    written(world, schema, {"key": pa.string(), **headers}, rows)
    found = read(world, stream="clicks")
    assert sorted((int(row["value"]), row["key"]) for row in found) == list(enumerate(keys))
    places = {(row["key"], row["partition"]) for row in found if row["key"] is not None}
    assert len(places) == 9
    sent = {key: stream.send(b"", key=key).partition for key in "abcdefgh"}
    assert sent.items() <= dict(places).items()


def test_headers_keep_their_types(world: RestWorld) -> None:
    world.broker.stream("clicks")
    told = {
        "text": {"string": "1"},
        "yes": {"boolean": True},
        "count": {"bigint": 1 << 40},
        "share": {"double": 0.5},
        "raw": {"binary": b"\x00\xff"},
        "at": {"timestamp": datetime(2026, 1, 31, tzinfo=UTC)},
        "more": {"json": '{"a": [1, null]}'},
        "none": None,
    }
    schema = StructType().add("value", "binary").add("headers", MapType(StringType(), typed_headers()))
    rows: list[dict[str, Any]] = [{"value": b"1", "headers": [*told.items()]}, {"value": b"2", "headers": None}]
    written(world, schema, {"headers": TYPED_HEADERS}, rows)
    (one,) = world.broker.stream("clicks").read(max_records=1)
    assert one.headers == {
        "text": "1",
        "yes": True,
        "count": 1 << 40,
        "share": 0.5,
        "raw": b"\x00\xff",
        "at": datetime(2026, 1, 31, tzinfo=UTC),
        "more": {"a": [1, None]},
        "none": None,
    }
    first, second = read(world, stream="clicks", includeheaders="typed")
    given = {
        name: value and {kind: each for kind, each in value.items() if each is not None}
        for name, value in first["headers"]
    }
    assert given == told
    assert second["headers"] is None
    assert [dict(row["headers"] or ())["count"] for row in read(world, stream="clicks")[:1]] == ["1099511627776"]
    assert "headers" not in read(world, stream="clicks", includeheaders="false")[0]


def typed_headers() -> StructType:
    fields = StructType()
    for name, kind in HEADER_TYPES.items():
        fields.add(name, kind.spark.replace("bigint", "long"))
    return fields


@pytest.mark.parametrize(
    ("spark_type", "kind", "value"),
    [(LongType(), pa.int64(), 7), (BooleanType(), pa.bool_(), True), (DoubleType(), pa.float64(), 0.5)],
)
def test_headers_of_one_type_keep_it(world: RestWorld, spark_type: Any, kind: pa.DataType, value: object) -> None:
    world.broker.stream("clicks")
    schema = StructType().add("value", "binary").add("headers", MapType(StringType(), spark_type))
    rows = [{"value": b"1", "headers": [("a", value)]}]
    written(world, schema, {"headers": pa.map_(pa.string(), kind)}, rows)
    (one,) = world.broker.stream("clicks").read(max_records=1)
    assert (one.headers, type((one.headers or {})["a"])) == ({"a": value}, type(value))


def test_a_header_of_two_types_is_refused(world: RestWorld) -> None:
    world.broker.stream("clicks")
    schema = StructType().add("value", "binary").add("headers", MapType(StringType(), typed_headers()))
    rows = [{"value": b"1", "headers": [("a", {"bigint": 1, "string": "1"})]}]
    with pytest.raises(InvalidArgument, match="string and bigint"):
        written(world, schema, {"headers": TYPED_HEADERS}, rows)
    with pytest.raises(InvalidArgument, match="true, false or typed"):
        read(world, stream="clicks", includeheaders="no")


def test_batches_are_joined_and_split_without_a_loss(world: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_groups, "PIECE_BYTES", 300)
    values = [os.urandom(number % 97) if number % 5 else None for number in range(500)]
    schema = pa.schema([("value", pa.binary()), ("message_id", pa.string())])
    ids = [str(number) if number % 3 else None for number in range(500)]
    whole = pa.RecordBatch.from_pydict({"value": values, "message_id": ids}, schema=schema)
    cuts = [whole.slice(start, 7) for start in range(0, 500, 7)]
    writer = batch_writer(world, StructType().add("value", "binary").add("message_id", "string"))
    staged = writer.write(iter(cuts))
    assert staged.pieces > 10
    writer.commit([staged])
    taken = [message for _ in range(5) for message in world.broker.queue("orders").receive(100)]
    assert [message.data for message in taken] == [value or b"" for value in values]
    assert [message.properties.message_id for message in taken] == ids


def test_a_virtual_host_has_sinks_of_its_own(world: RestWorld) -> None:
    with world.broker.runtime as core:
        core.declare_vhost("other")
        world.access.set_permission("guest", "other", ".*", ".*", ".*")
    world.ok("PUT /queues/orders?vhost=other")
    for vhost in ("/", "other"):
        writer = batch_writer(world, sinkid="same", vhost=vhost)
        writer.commit([writer.write(rows(vhost.encode()))])
        writer.commit([writer.write(rows(vhost.encode()))])
    assert received(world.broker.queue("orders")) == [b"/"]
    assert received(world.broker.queue("orders", vhost="other")) == [b"other"]


def test_a_commit_tells_what_is_wrong(world: RestWorld) -> None:
    writer = batch_writer(world, queue="nowhere")
    with pytest.raises(QueueNotFound, match="create it first"):
        writer.commit([writer.write(rows(b"1"))])
    with pytest.raises(leveret.NotFound, match="not staged"):
        writer.commit([StagedPart("a", 1, 1)])


@pytest.mark.parametrize(
    ("options", "columns", "text"),
    [
        ({"url": ""}, {"value": "binary"}, "option url"),
        ({"url": "nowhere"}, {"value": "binary"}, "http://HOST"),
        ({"unroutable": "maybe"}, {"value": "binary"}, "refuse or drop"),
        ({"committimeout": "soon"}, {"value": "binary"}, "give a number"),
        ({"priority": "256"}, {"value": "binary"}, "from 0 to 255"),
        ({}, {"body": "binary"}, "has no meaning"),
        ({}, {"message_id": "string"}, "no column 'value'"),
        ({}, {"value": "integer"}, "cast it"),
        ({}, {"value": "binary", "headers": MapType(StringType(), DateType())}, "cast it"),
        ({}, {"value": "binary", "headers": MapType(StringType(), StructType().add("x", "integer"))}, "cast it"),
        ({}, {"value": "binary", "queue": "string"}, "an option and a column"),
    ],
)
def test_options_and_columns_are_checked_before_tasks_start(
    options: dict[str, str], columns: dict[str, Any], text: str
) -> None:
    schema = StructType()
    for name, kind in columns.items():
        schema.add(name, kind)
    with pytest.raises(InvalidArgument, match=text):
        LeveretSource({"url": "http://127.0.0.1", "queue": "q", **options}).writer(schema, False)


def test_what_makes_no_sense_at_all_is_refused() -> None:
    nowhere = LeveretSource({"url": "http://127.0.0.1"})
    with pytest.raises(InvalidArgument, match="somewhere to go"):
        nowhere.writer(SCHEMA, False)
    with pytest.raises(InvalidArgument, match="append"):
        nowhere.writer(SCHEMA, True)
    with pytest.raises(InvalidArgument, match="sinkId"):
        LeveretSource({"url": "http://127.0.0.1", "queue": "q"}).streamWriter(SCHEMA, False)
    with pytest.raises(InvalidArgument, match="option url"):
        LeveretSource({"queue": "q"}).writer(SCHEMA, False)
