"""Batches over REST: published as a whole, in order, and once."""

from typing import Any

import pytest

from leveret.core.errors import BlobStoreFailed, BrokerClosed, Fenced, StoreUnreachable
from leveret.core.tables import encode_table
from leveret.ingest.row_groups import COLUMNS, constant
from leveret.ingest.staging import Staging
from tests.ingest.batches import TO_ORDERS, Batch, bodies, numbers, row_group, texts
from tests.ingest.conftest import received
from tests.protocols.rest.world import RestWorld


def test_a_batch_is_published_in_the_order_of_its_parts(world: RestWorld) -> None:
    batch = (
        Batch(world)
        .stage("b", (row_group(bodies(0, 5)), 5), (row_group(bodies(5, 5)), 5))
        .stage("a", (row_group([b"10"]), 1))
    )
    answer = batch.commit()
    assert answer.status == 200
    assert answer.json == {"batch": 0, "state": "published", "rows": 11, "done": 11, "dropped": 0}
    assert received(world.broker.queue("orders")) == bodies(0, 11)


def test_a_second_commit_is_answered_as_the_first_and_publishes_nothing(world: RestWorld) -> None:
    batch = Batch(world).stage("a", (row_group(bodies(0, 3)), 3))
    first = batch.commit()
    again = Batch(world).stage("retry", (row_group(bodies(0, 3)), 3))
    assert batch.commit().json == again.commit().json == first.json
    assert received(world.broker.queue("orders")) == bodies(0, 3)


def test_nothing_is_seen_before_the_commit_and_nothing_after_an_abort(world: RestWorld) -> None:
    batch = Batch(world).stage("a", (row_group(bodies(0, 3)), 3))
    assert received(world.broker.queue("orders")) == []
    assert world.call("POST /sinks/s/abort", {"parts": ["a", "unknown"]}).status == 204
    answer = batch.commit()
    assert (answer.status, answer.json["title"]) == (404, "Not found")
    assert received(world.broker.queue("orders")) == []


def test_an_abort_after_the_commit_undoes_nothing(world: RestWorld) -> None:
    batch = Batch(world).stage("a", (row_group(bodies(0, 3)), 3))
    batch.commit()
    world.ok("POST /sinks/s/abort", {"parts": ["a"]})
    assert batch.commit().status == 200
    assert received(world.broker.queue("orders")) == bodies(0, 3)


def test_a_short_batch_may_have_a_column_of_priorities(world: RestWorld) -> None:
    columns = (constant("queue", "orders"), numbers("priority", [1, None]), numbers("timestamp", [1_767_000_000, None]))
    assert Batch(world).stage("a", (row_group([b"first", b"second"], *columns), 2)).commit().status == 200
    assert received(world.broker.queue("orders")) == [b"first", b"second"]


@pytest.mark.parametrize("name", sorted(COLUMNS.keys() - {"value", "queue", "exchange"}))
def test_a_batch_of_any_size_may_have_any_column_to_any_destination(world: RestWorld, name: str) -> None:
    world.ok("PUT /exchanges/news", {"type": "fanout"})
    world.ok("POST /exchanges/news/bindings", {"destination": "orders"})
    cell: Any = encode_table({"color": "red"}) if name == "headers" else 5 if COLUMNS[name].kind == "number" else b"x"
    column = numbers if COLUMNS[name].kind == "number" else texts
    cases = [
        (size, to, cells)
        for size in (1, 300)
        for to in (TO_ORDERS, (constant("exchange", "news"),), (texts("queue", [b"orders"] * size),))
        for cells in ([cell] * size, [None] * size, [cell, *[None] * (size - 1)])
    ]
    for number, (size, to, cells) in enumerate(cases):
        batch = Batch(world, f"s{number}").stage("a", (row_group([b"body"] * size, *to, column(name, cells)), size))
        answer = batch.commit()
        assert (answer.status, answer.json.get("dropped")) == (200, 0), (size, to, cells[:1], answer.json)


def test_attempts_that_lost_are_not_published(world: RestWorld) -> None:
    Batch(world).stage("loser", (row_group([b"lost"]), 1))
    Batch(world).stage("winner", (row_group([b"won"]), 1)).commit()
    assert received(world.broker.queue("orders")) == [b"won"]


def test_rows_choose_queues_exchanges_and_keys(world: RestWorld) -> None:
    world.ok("PUT /exchanges/news", {"type": "topic"})
    world.ok("PUT /queues/red")
    world.ok("POST /exchanges/news/bindings", {"destination": "red", "routing_key": "red.#"})
    columns = (
        texts("queue", [b"orders", None, None]),
        texts("exchange", [None, b"news", b""]),
        texts("routing_key", [None, b"red.apple", b"orders"]),
    )
    Batch(world).stage("a", (row_group([b"1", b"2", b"3"], *columns), 3)).commit()
    assert received(world.broker.queue("orders")) == [b"1", b"3"]
    (message,) = world.broker.queue("red").receive()
    assert (message.data, message.routing_key) == (b"2", "red.apple")


def test_rows_carry_what_their_columns_say(world: RestWorld) -> None:
    world.ok("PUT /queues/rich", {"max_priority": 9, "groups": "fair"})
    headers = b"\x00\x00\x00\x0b\x05colorS\x00\x00\x00\x00"
    columns = (
        texts("queue", [b"rich", b"rich"]),
        texts("message_id", [b"m-1", None]),
        texts("content_type", [b"text/plain", None]),
        texts("message_group_id", [b"g", None]),
        texts("headers", [headers, None]),
        numbers("priority", [7, None]),
        numbers("timestamp", [1_700_000_000, None]),
    )
    assert Batch(world).stage("a", (row_group([b"hello", None], *columns), 2)).commit().status == 200
    first, second = world.broker.queue("rich").receive(2)
    assert (first.data, first.priority, first.headers["color"]) == (b"hello", 7, "")
    assert first.properties.message_id == "m-1"
    assert first.properties.timestamp == 1_700_000_000
    assert second.data == b""


def test_delayed_rows_come_later_and_duplicates_not_at_all(world: RestWorld) -> None:
    columns = (
        texts("queue", [b"orders"] * 3),
        numbers("delay_ms", [600_000, None, None]),
        texts("dedup_id", [None, b"x", b"x"]),
    )
    Batch(world).stage("a", (row_group(bodies(0, 3), *columns), 3)).commit()
    queue = world.broker.queue("orders")
    assert received(queue) == [b"1"]
    assert [each.data for each in queue.scheduled()] == [b"0"]


def test_a_large_body_goes_to_the_blob_store_and_back(world: RestWorld) -> None:
    large = b"x" * 1_000_000
    Batch(world).stage("a", (row_group([b"small", large]), 2)).commit()
    assert received(world.broker.queue("orders")) == [b"small", large]


def test_equal_rows_are_one_message_where_equal_bodies_are_whatever_their_size(world: RestWorld) -> None:
    world.ok("PATCH /queues/orders", {"content_dedup": True})
    large = b"x" * 1_000_000
    Batch(world).stage("a", (row_group([b"small", large, b"small", large, large + b"y"]), 5)).commit()
    world.broker.queue("orders").send(large)
    assert received(world.broker.queue("orders")) == [b"small", large, large + b"y"]


@pytest.mark.parametrize(("unroutable", "status"), [("refuse", 409), ("drop", 200)])
def test_rows_that_reach_no_queue_are_refused_before_anything_is_published(
    world: RestWorld, unroutable: str, status: int
) -> None:
    world.ok("PUT /exchanges/news", {"type": "direct"})
    world.ok("POST /exchanges/news/bindings", {"destination": "orders", "routing_key": "here"})
    columns = (texts("exchange", [b"news"] * 3), texts("routing_key", [b"here", b"nowhere", b"here"]))
    batch = Batch(world).stage("a", (row_group(bodies(0, 3), *columns), 3))
    answer = batch.commit(unroutable=unroutable)
    assert answer.status == status
    if status == 200:
        assert answer.json["dropped"] == 1
    assert received(world.broker.queue("orders")) == ([b"0", b"2"] if status == 200 else [])


def until_done(batch: Batch, rows: int) -> Any:
    """Ask for the commit until so many rows are published; the last answer."""
    while (answer := batch.commit()).json["done"] < rows:
        pass
    return answer


def test_a_full_queue_is_waited_for(world: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret.ingest.sinks.COMMIT_S", 0.1)
    world.ok("PUT /queues/small", {"max_length": 2, "overflow": "reject-publish"})
    batch = Batch(world).stage("a", (row_group(bodies(0, 5), texts("queue", [b"small"] * 5)), 5))
    answer = until_done(batch, 2)
    assert (answer.status, answer.json["done"], answer.json["state"]) == (202, 2, "publishing")
    queue = world.broker.queue("small")
    found: list[bytes] = []
    while batch.commit().status == 202:
        found += received(queue)
    assert found + received(queue) == bodies(0, 5)


def test_a_queue_that_goes_after_the_decision_takes_its_rows_along(
    world: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leveret.ingest.sinks.COMMIT_S", 0.1)
    world.ok("PUT /queues/small", {"max_length": 2, "overflow": "reject-publish"})
    batch = Batch(world).stage("a", (row_group(bodies(0, 5), texts("queue", [b"small"] * 5)), 5))
    assert until_done(batch, 2).status == 202
    world.ok("DELETE /queues/small")
    while (answer := batch.commit()).status == 202:
        pass
    assert (answer.json["done"], answer.json["dropped"]) == (5, 3)


def test_an_empty_batch_is_a_batch(world: RestWorld) -> None:
    assert Batch(world).commit().json["state"] == "published"
    assert Batch(world).stage("a", (row_group(bodies(0, 1)), 1)).commit().json["rows"] == 0
    assert received(world.broker.queue("orders")) == []


def records(world: RestWorld, stream: str) -> list[list[bytes]]:
    """What the partitions of a stream hold."""
    found = world.broker.stream(stream)
    return [[record.data for record in found.read(number)] for number in range(found.partitions)]


def test_a_stream_gets_every_row_once_and_neighbours_together(world: RestWorld) -> None:
    world.broker.stream("log", partitions=2)
    batch = Batch(world).stage("a", (row_group(bodies(0, 600), constant("queue", "log")), 600))
    assert batch.commit().json == batch.commit().json
    assert records(world, "log") == [bodies(0, 256) + bodies(512, 88), bodies(256, 256)]


def test_a_stream_gets_what_columns_say_of_each_row(world: RestWorld) -> None:
    """Many rows at once, with properties of their own; the rest of a batch that was interrupted knows its numbers."""
    world.broker.stream("log", partitions=2)
    ids = texts("message_id", [b"id-%d" % number for number in range(600)])
    Batch(world).stage("a", (row_group(bodies(0, 600), constant("queue", "log"), ids), 600)).commit()
    found = world.broker.stream("log")
    told = {record.data: record.properties.message_id for number in range(2) for record in found.read(number)}
    assert told == {body: f"id-{number}" for number, body in enumerate(bodies(0, 600))}


def test_a_partition_key_says_where_rows_of_a_stream_are(world: RestWorld) -> None:
    world.broker.stream("log", partitions=4)
    keys = texts("headers", [encode_table({"x-partition-key": f"k{number % 3}"}) for number in range(9)])
    Batch(world).stage("a", (row_group(bodies(0, 9), constant("queue", "log"), keys), 9)).commit()
    for values in records(world, "log"):
        assert sorted(values) == sorted(body for body in bodies(0, 9) if int(body) % 3 in {int(v) % 3 for v in values})


def test_a_row_may_reach_streams_and_queues(world: RestWorld) -> None:
    world.broker.stream("log")
    for name in ("log", "orders"):
        world.ok("POST /exchanges/amq.fanout/bindings", {"destination": name})
    large = b"x" * 1_000_000
    Batch(world).stage("a", (row_group([b"1", large], constant("exchange", "amq.fanout")), 2)).commit()
    Batch(world, "t").stage("a", (row_group([b"2", large], constant("queue", "log")), 2)).commit()
    assert records(world, "log") == [[b"1", large, b"2", large]]
    assert received(world.broker.queue("orders")) == [b"1", large]


def test_streams_forget_a_batch_that_is_published(world: RestWorld) -> None:
    stream = world.broker.stream("log")
    for number in range(3):
        Batch(world, number=number).stage("a", (row_group(bodies(0, 2), constant("queue", "log")), 2)).commit()
    assert len(stream.recorder.logs[0].producers) == 0
    assert records(world, "log") == [bodies(0, 2) * 3]


def test_a_batch_that_was_decided_on_waits_for_a_store_that_is_away(
    world: RestWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leveret.ingest.sinks.AWAY_S", 0.01)
    answers: list[Exception | None] = [None, BlobStoreFailed("away"), BlobStoreFailed("still away")]
    read = Staging.read

    def answered(staging: Staging, *names: Any) -> bytes:
        if answers and (error := answers.pop(0)) is not None:
            raise error
        return read(staging, *names)

    monkeypatch.setattr(Staging, "read", answered)  # once to check it, then to publish it
    assert Batch(world).stage("a", (row_group(bodies(0, 3)), 3)).commit().json["state"] == "published"
    assert not answers
    assert received(world.broker.queue("orders")) == bodies(0, 3)


@pytest.mark.parametrize("error", [BlobStoreFailed, BrokerClosed, Fenced, StoreUnreachable])
def test_a_store_that_is_gone_is_no_fault_of_a_sink(
    world: RestWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: type[Exception]
) -> None:
    def gone(*_: object) -> None:
        raise error("b has taken over this store")

    monkeypatch.setattr(Staging, "claim", gone)
    assert Batch(world).stage("a", (row_group(bodies(0, 3)), 3)).commit().status == 503
    (told,) = [record for record in caplog.records if record.getMessage() == "work on a sink failed"]
    assert (told.levelname, told.exc_info) == ("WARNING", None)
