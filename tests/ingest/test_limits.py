"""What sinks refuse: too much, what makes no sense, and what belongs to somebody else."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leveret
from leveret.core.errors import (
    DamagedJournal,
    InvalidArgument,
    MessageTooLarge,
    NotFound,
    PreconditionFailed,
    TooMany,
    WrongKey,
)
from leveret.core.tables import encode_table
from leveret.ingest.commit_log import CommittedPart, Sink
from leveret.ingest.quota import Quota, StagingLimits
from leveret.ingest.row_groups import CONSTANT, NUMBERS, ColumnBuffers, RowGroup, constant, encode
from leveret.ingest.rows import IngestRows
from leveret.ingest.staging import PIECES_MAX, Folder, Staging
from leveret.storage.disk import Disk
from leveret.storage.encryption import MasterKeys
from tests.ingest.batches import Batch, bodies, numbers, row_group, texts
from tests.ingest.conftest import received
from tests.protocols.rest.world import RestWorld

SINK = Sink("/", "guest", "s")
LIMITS = StagingLimits(
    bytes_max=1_000, sink_bytes_max=700, user_bytes_max=900, pieces_max=8, user_pieces_max=5, age_ms=60_000
)
GOOD = row_group(bodies(0, 3))


@pytest.mark.parametrize("end", range(len(GOOD)))
def test_a_piece_that_was_cut_is_refused(end: int) -> None:
    with pytest.raises(InvalidArgument):
        RowGroup(GOOD[:end])


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (GOOD + b"x", "follow"),
        (b"LVP2" + GOOD[4:], "begin"),
        (encode(1_000_001, []), "split"),
        (encode(1, [constant("queue", "a"), constant("queue", "b")]), "twice"),
        (encode(1, [ColumnBuffers("queue", 9, (b"",))]), "form 9"),
        (encode(1, [ColumnBuffers("priority", CONSTANT, (b"1",))]), "no number"),
        (encode(1, [constant("priority", 256)]), "0 to 255"),
        (encode(1, [constant("priority", -1)]), "0 to 255"),
        (encode(2, [numbers("priority", [0, 256])]), "0 to 255"),
        (encode(2, [numbers("delay_ms", [None, -1])]), "delay_ms"),
        (encode(3, [ColumnBuffers("ttl_ms", NUMBERS, (b"12345678",))]), "8 bytes for 3 rows"),
        (encode(1, [constant("queue", "q" * 256)]), "limit is 255"),
        (encode(1, [texts("routing_key", [b"q" * 256])]), "limit is 255"),
        (encode(2, [ColumnBuffers("value", 2, (b"\x05\0\0\0\x04\0\0\0\x06\0\0\0", b"x"))]), "do not rise"),
        (encode(2, [ColumnBuffers("value", 2, (b"\0\0\0\0\x01\0\0\0\xff\0\0\0", b"x"))]), "do not rise"),
    ],
)
def test_a_piece_that_is_wrong_is_refused(data: bytes, text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        RowGroup(data)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ([texts("queue", [None])], "neither a queue nor an exchange"),
        ([texts("queue", [b"\xff"])], "UTF-8"),
        ([constant("queue", "q"), texts("headers", [b"\0\0\0\x09"])], "no table"),
        ([constant("queue", "q"), texts("headers", [b"\0\0\0\0rest"])], "after their end"),
        ([constant("queue", "q"), texts("message_group_id", [b""])], "group"),
    ],
)
def test_a_row_that_is_wrong_is_refused(columns: list[ColumnBuffers], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        list(IngestRows(RowGroup(row_group([b"x"], *columns)), 100).read(0))


def staging(path: Path, keys: MasterKeys | None = None, **limits: Any) -> Staging:
    return Staging(Folder(Disk(path)), keys or MasterKeys(), Quota(dataclasses.replace(LIMITS, **limits)), now_ms=0)


def test_a_sink_and_all_sinks_have_a_limit_of_bytes(tmp_path: Path) -> None:
    found = staging(tmp_path)
    found.put(SINK, "a", 0, b"x" * 500, 0)
    with pytest.raises(TooMany, match="staging_sink_bytes_max"):
        found.put(SINK, "b", 0, b"x" * 500, 0)
    with pytest.raises(TooMany, match="staging_bytes_max"):
        found.put(Sink("/", "other", "t"), "b", 0, b"x" * 500, 0)
    found.drop(SINK, ["a"])
    found.put(SINK, "b", 0, b"x" * 500, 0)


@pytest.mark.parametrize(("part", "number"), [("a.b", 0), ("", 0), ("x" * 65, 0), ("../a", 0), ("a", PIECES_MAX)])
def test_names_of_parts_are_checked(tmp_path: Path, part: str, number: int) -> None:
    with pytest.raises(InvalidArgument):
        staging(tmp_path).put(SINK, part, number, b"x", 0)
    assert list(tmp_path.iterdir()) == []


def test_what_is_abandoned_is_swept_and_what_is_claimed_is_not(tmp_path: Path) -> None:
    found = staging(tmp_path)
    found.put(SINK, "old", 0, b"x", 0)
    found.put(SINK, "claimed", 0, b"x", 0)
    found.put(SINK, "new", 0, b"x", 50_000)
    found.claim(SINK, [CommittedPart("claimed", 1)])
    assert found.sweep(61_000) == 1
    with pytest.raises(NotFound):
        found.claim(SINK, [CommittedPart("old", 1)])
    found.claim(SINK, [CommittedPart("new", 1)])
    with pytest.raises(PreconditionFailed):
        found.put(SINK, "claimed", 0, b"other", 61_000)
    found.drop(SINK, ["claimed"])
    assert found.read(SINK, "claimed", 0) == b"x"


def test_staged_pieces_are_there_after_a_restart(tmp_path: Path) -> None:
    staging(tmp_path).put(SINK, "a", 0, b"x", 0)
    (tmp_path / "half.tmp").write_bytes(b"half")
    again = staging(tmp_path)
    again.claim(SINK, [CommittedPart("a", 1)])
    assert again.read(SINK, "a", 0) == b"x"
    with pytest.raises(NotFound):
        again.claim(SINK, [CommittedPart("a", 2)])
    assert [each.suffix for each in tmp_path.iterdir()] == [".0"]


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    staging(tmp_path).put(SINK, "a", 0, b"content", 0)
    (file,) = tmp_path.iterdir()
    data = file.read_bytes()
    for position in range(len(data)):
        file.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        with pytest.raises(DamagedJournal, match=file.name):
            staging(tmp_path).read(SINK, "a", 0)


def test_pieces_are_encrypted_when_the_journal_is(tmp_path: Path) -> None:
    keys = MasterKeys(bytes(32))
    staging(tmp_path, keys).put(SINK, "a", 0, b"secret text", 0)
    (file,) = tmp_path.iterdir()
    assert b"secret" not in file.read_bytes()
    assert staging(tmp_path, keys).read(SINK, "a", 0) == b"secret text"
    with pytest.raises(WrongKey):
        staging(tmp_path).read(SINK, "a", 0)


def test_write_permission_is_needed_where_rows_go(world: RestWorld) -> None:
    world.ok("PUT /exchanges/news", {"type": "topic"})
    token = world.add_user("app", write="^mine$")
    answers = [
        world.call("PUT /sinks/s/parts/a/0", row_group([b"x"], *columns), token=token)
        for columns in (
            [constant("queue", "orders")],
            [texts("exchange", [b"news"])],
            [texts("exchange", [b""]), texts("routing_key", [b"orders"])],
        )
    ]
    assert [answer.status for answer in answers] == [403] * 3
    world.ok("PUT /sinks/s/parts/a/0", row_group([b"x"], constant("queue", "mine")), token=token)


def test_topic_permissions_count_when_a_batch_is_committed(world: RestWorld) -> None:
    world.ok("PUT /exchanges/news", {"type": "topic"})
    token = world.add_user("app", write=".*")
    with world.broker.runtime:
        world.access.set_topic_permission("app", "/", "news", "^red", "")
    columns = (constant("exchange", "news"), texts("routing_key", [b"red.a", b"blue.a"]))
    batch = Batch(world, token=token).stage("a", (row_group(bodies(0, 2), *columns), 2))
    assert batch.commit(unroutable="drop").status == 403


def test_nobody_uses_the_sink_of_another(world: RestWorld) -> None:
    token = world.add_user("app", write=".*")
    Batch(world).stage("a", (row_group([b"guest"]), 1))
    world.ok("POST /sinks/s/abort", {"parts": ["a"]}, token=token)
    Batch(world, token=token).stage("a", (row_group([b"app"]), 1)).commit()
    mine = Batch(world)
    mine.parts, mine.rows = [{"part": "a", "pieces": 1}], 1
    assert mine.commit().status == 200
    assert received(world.broker.queue("orders")) == [b"app", b"guest"]
    assert [each["name"] for each in world.ok("GET /sinks", token=token)["sinks"]] == ["s"]


def test_a_batch_of_another_query_or_long_past_is_refused(tmp_path: Path) -> None:
    with leveret.open(tmp_path, sync="never") as broker, RestWorld(broker, sink_batches_max=2) as world:
        for number in range(4):
            assert Batch(world, number=number).commit(origin="one").status == 200
        assert [row["batch"] for row in world.ok("GET /sinks")["sinks"][0]["batches"]] == [2, 3]
        assert Batch(world, number=3).commit(origin="one").status == 200
        assert "another query" in Batch(world, number=3).commit(origin="two").json["detail"]
        assert "no longer known" in Batch(world, number=1).commit(origin="one").json["detail"]
        world.ok("DELETE /sinks/s")
        assert world.call("DELETE /sinks/s").status == 404
        assert Batch(world, number=1).commit(origin="two").status == 200


def test_a_commit_that_says_nonsense_is_refused(world: RestWorld) -> None:
    batch = Batch(world).stage("a", (row_group(bodies(0, 3)), 3))
    twice = {"parts": [*batch.parts, *batch.parts], "rows": 6}
    assert world.call("POST /sinks/s/batches/0", twice).status == 400
    assert world.call("POST /sinks/s/batches/-1", {"parts": [], "rows": 0}).status == 400
    assert world.call(f"POST /sinks/{'s' * 201}/batches/0", {"parts": [], "rows": 0}).status == 400
    assert batch.commit(rows=4).status == 409
    assert batch.commit().status == 200


def test_rows_for_what_is_not_there_or_too_large_are_refused(world: RestWorld) -> None:
    world.ok("PUT /queues/tiny", {"max_message_size": 1024})
    cases: list[tuple[list[ColumnBuffers], int]] = [
        ([constant("queue", "nowhere")], 404),
        ([constant("exchange", "nowhere")], 404),
        ([constant("queue", "tiny")], 413),
    ]
    for position, (columns, status) in enumerate(cases):
        batch = Batch(world, f"s{position}").stage("a", (row_group([b"x" * 2_000], *columns), 1))
        assert batch.commit().status == status


def test_headers_that_a_stream_does_not_take_refuse_the_batch(world: RestWorld) -> None:
    world.broker.stream("log")
    unnumbered = encode_table({"x-producer": "p"})
    columns = (constant("queue", "log"), texts("headers", [None, unnumbered]))
    answer = Batch(world).stage("a", (row_group([b"1", b"2"], *columns), 2)).commit()
    assert (answer.status, "x-sequence" in answer.json["detail"]) == (400, True)
    assert world.broker.stream("log").stats().records == 0


def test_a_broker_in_memory_stages_nothing() -> None:
    with leveret.open() as broker, RestWorld(broker) as world:
        assert world.call("GET /sinks").status == 422


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_whatever_comes_is_rows_or_refused(data: st.DataObject) -> None:
    rich = encode(
        3,
        [
            constant("exchange", "e"),
            texts("value", [b"a", None, b"ccc"]),
            texts("routing_key", [b"k", None, b"long"]),
            texts("headers", [b"\0\0\0\0", None, None]),
            numbers("priority", [1, None, 3]),
            numbers("ttl_ms", [5, 6, None]),
        ],
    )
    changed = bytearray(rich)
    for _ in range(data.draw(st.integers(0, 4))):
        changed[data.draw(st.integers(0, len(rich) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = IngestRows(RowGroup(bytes(changed)), 100)
        assert len(list(found.read())) == len(list(found.outline())) == len(found)
    except (InvalidArgument, MessageTooLarge):
        return
