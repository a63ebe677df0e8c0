"""One user can neither fill what all users share, nor stage or commit what it may not write to."""

from __future__ import annotations

import tracemalloc
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from leveret.core.errors import InvalidArgument, NotFound, TooMany
from leveret.ingest import commit_log
from leveret.ingest.commit_log import CommittedPart, Sink
from leveret.ingest.quota import Quota, StagingLimits
from leveret.ingest.row_groups import ColumnBuffers, RowGroup, constant, encode
from leveret.ingest.rows import RowDestination, destinations
from leveret.ingest.staging import Folder, Staging
from leveret.storage.disk import Disk
from leveret.storage.encryption import MasterKeys
from tests.ingest.batches import TO_ORDERS, Batch, row_group, texts
from tests.protocols.rest.world import RestWorld

LIMITS = StagingLimits(
    bytes_max=1_000, sink_bytes_max=700, user_bytes_max=800, pieces_max=8, user_pieces_max=5, age_ms=60_000
)
BODY = texts("value", [b"x" * 100_000])
EMPTY = texts("value", [])


def stranger(world: RestWorld) -> str:
    """A user without any permission."""
    with world.broker.runtime:
        world.access.add_user("mallory", "")
    return world.add_token("mallory", ["*:*"])


def staged(world: RestWorld) -> int:
    """The files of the staging directory."""
    return len(list((Path(world.broker.runtime.store.disk.path) / "staging").iterdir()))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "data",
    [
        encode(0, []),
        encode(0, [*TO_ORDERS, EMPTY]),
        encode(0, [texts("queue", []), EMPTY]),
        encode(1, [BODY]),
        encode(1, [BODY, *TO_ORDERS]),
    ],
    ids=["nothing", "no rows for a queue", "no rows for a column", "a row for nowhere", "a row for a queue"],
)
def test_a_user_without_permissions_stages_nothing(world: RestWorld, data: bytes) -> None:
    token = stranger(world)
    answers = [world.call(f"PUT /sinks/s{number}/parts/a/0", data, token=token).status for number in range(20)]
    assert (set(answers), staged(world)) == ({403}, 0)


@pytest.mark.parametrize(
    ("line", "body"),
    [
        ("POST /sinks/s/batches/0", {"parts": [], "rows": 0}),
        ("POST /sinks/s/abort", {"parts": []}),
        ("DELETE /sinks/s", None),
        ("GET /sinks", None),
    ],
)
def test_a_user_without_permissions_has_no_sinks(world: RestWorld, line: str, body: Any) -> None:
    assert world.call(line, body, token=stranger(world)).status == 403


def test_a_piece_without_rows_goes_where_its_constants_say(world: RestWorld) -> None:
    token = world.add_user("app", write="^mine$")
    mine, theirs = (encode(0, [constant("queue", name), EMPTY]) for name in ("mine", "orders"))
    assert world.call("PUT /sinks/s/parts/a/0", mine, token=token).status == 201
    assert world.call("PUT /sinks/s/parts/a/1", theirs, token=token).status == 403
    refused = world.call("PUT /sinks/s/parts/a/1", encode(0, [EMPTY]), token=token)
    assert (refused.status, "neither a queue nor an exchange" in refused.json["detail"]) == (400, True)


def test_permissions_that_were_taken_away_count_for_what_was_staged(world: RestWorld) -> None:
    token = world.add_user("app", write="^orders$")
    rows = Batch(world, "rows", token=token).stage("a", (row_group([b"x"]), 1))
    empty = Batch(world, "empty", token=token).stage("a", (encode(0, [*TO_ORDERS, EMPTY]), 0))
    with world.broker.runtime:
        world.access.set_permission("app", "/", "", "^other$", "")
    assert [batch.commit().status for batch in (rows, empty)] == [403, 403]
    assert world.call("PUT /sinks/rows/parts/b/0", row_group([b"x"]), token=token).status == 403
    with world.broker.runtime:
        world.access.clear_permission("app", "/")
    assert Batch(world, "none", token=token).commit().status == 403


def test_the_declared_destination_is_checked_without_rows(world: RestWorld) -> None:
    token = world.add_user("app", write="^mine$")
    answers = [
        Batch(world, f"s{number}", token=token).commit(**declared).status
        for number, declared in enumerate([{"queue": "orders"}, {"exchange": "amq.topic"}, {"queue": "mine"}, {}])
    ]
    assert answers == [403, 403, 200, 200]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ([constant("queue", "a"), texts("exchange", [b"e", None])], {RowDestination("a")}),
        ([texts("queue", [b"a", None]), constant("exchange", "e")], {RowDestination("a"), RowDestination(None, "e")}),
        ([texts("exchange", [b"e", None]), texts("routing_key", [b"k", b"q"])], {("q", "", ""), (None, "e", "")}),
        ([texts("routing_key", [b"k", b"q"])], {RowDestination("k"), RowDestination("q")}),
        ([texts("queue", [b"a", b"b"])], {RowDestination("a"), RowDestination("b")}),
    ],
)
def test_a_piece_names_the_destinations_of_its_rows(
    columns: list[ColumnBuffers], expected: set[RowDestination]
) -> None:
    assert destinations(RowGroup(row_group([b"1", b"2"], *columns))) == expected


def test_a_row_for_nowhere_is_refused_when_it_is_staged() -> None:
    with pytest.raises(InvalidArgument, match="neither a queue nor an exchange"):
        destinations(RowGroup(row_group([b"1", b"2"], texts("queue", [b"a", None]))))


def staging(path: Path, quota: Quota | None = None) -> Staging:
    return Staging(Folder(Disk(path)), MasterKeys(), quota or Quota(LIMITS), now_ms=0)


def sink(user: str, name: str = "s") -> Sink:
    return Sink("/", user, name)


def test_a_user_has_a_limit_of_bytes_that_leaves_room_for_others(tmp_path: Path) -> None:
    found = staging(tmp_path)
    found.put(sink("a"), "p", 0, b"x" * 500, 0)
    with pytest.raises(TooMany, match="staging_user_bytes_max"):
        found.put(sink("a", "t"), "p", 0, b"x" * 290, 0)
    found.put(sink("b"), "p", 0, b"x" * 290, 0)
    with pytest.raises(TooMany, match="staging_bytes_max"):
        found.put(sink("b"), "p", 1, b"x" * 290, 0)
    with pytest.raises(TooMany, match="staging_user_bytes_max"):
        staging(tmp_path).put(sink("a", "t"), "p", 0, b"x" * 290, 0)


def test_pieces_of_no_bytes_have_a_limit_too(tmp_path: Path) -> None:
    found = staging(tmp_path)
    for number in range(5):
        found.put(sink("a", f"s{number}"), "p", 0, b"", 0)
    with pytest.raises(TooMany, match="staging_user_pieces_max"):
        found.put(sink("a"), "p", 0, b"", 0)
    for number in range(3):
        found.put(sink("b"), f"p{number}", 0, b"", 0)
    with pytest.raises(TooMany, match="staging_pieces_max"):
        found.put(sink("b"), "q", 0, b"", 0)
    found.put(sink("b"), "p0", 0, b"again", 0)
    found.drop(sink("a", "s0"), ["p"])
    found.put(sink("b"), "q", 0, b"", 0)


def test_what_is_replaced_dropped_or_swept_counts_no_more(tmp_path: Path) -> None:
    quota = Quota(LIMITS)
    found = staging(tmp_path, quota)
    for size in (400, 100, 600):
        found.put(sink("a"), "p", 0, b"x" * size, 0)
    found.drop(sink("a"), ["p"])
    assert quota.bytes_of(found._key(sink("a"))) == 0
    found.put(sink("a"), "p", 0, b"x" * 600, 0)
    assert found.sweep(61_000) == 1
    assert (quota._all.bytes, quota._all.row_groups, quota._users, quota._sinks) == (0, 0, {}, {})


def test_the_shards_of_a_node_share_a_quota_until_they_move(tmp_path: Path) -> None:
    quota = Quota(LIMITS)
    first, second = staging(tmp_path / "1", quota), staging(tmp_path / "2", quota)
    first.put(sink("a"), "p", 0, b"x" * 500, 0)
    with pytest.raises(TooMany, match="staging_user_bytes_max"):
        second.put(sink("a", "t"), "p", 0, b"x" * 500, 0)
    first.close()
    first.drop(sink("a"), ["p"])
    second.put(sink("a", "t"), "p", 0, b"x" * 500, 0)
    assert quota._all.row_groups == 1


def legacy_digest(each: Sink) -> str:
    return blake2b("\0".join(each).encode(), digest_size=16).hexdigest()


def test_files_of_an_older_version_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as older:
        older.setattr("leveret.ingest.staging.digest_of", legacy_digest)
        staging(tmp_path).put(sink("a"), "p", 0, b"old", 0)
    again = staging(tmp_path)
    again.put(sink("a"), "p", 1, b"new", 0)
    again.claim(sink("a"), [CommittedPart("p", 2)])
    assert [again.read(sink("a"), "p", number) for number in range(2)] == [b"old", b"new"]
    again.release(sink("a"), [CommittedPart("p", 2)])
    again.drop(sink("a"), ["p"])
    assert list(tmp_path.iterdir()) == []


def test_a_commit_that_names_millions_of_pieces_costs_nothing(tmp_path: Path) -> None:
    found = staging(tmp_path)
    shares = [CommittedPart(f"p{number}", 10_000) for number in range(100)]
    tracemalloc.start()
    try:
        with pytest.raises(NotFound):
            found.claim(sink("a"), shares)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_user_has_a_limit_of_sinks(world: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_log, "SINKS_USER_MAX", 3)
    monkeypatch.setattr(commit_log, "SINKS_MAX", 5)
    app, other = (world.add_user(name, write=".*") for name in ("app", "other"))
    assert [Batch(world, f"s{n}", token=app).commit().status for n in range(4)] == [200, 200, 200, 429]
    assert Batch(world, "s0", number=1, token=app).commit().status == 200
    assert Batch(world, "once", token=app).commit(once=True).status == 200
    assert Batch(world, "once", number=1, token=app).commit().status == 429
    assert [Batch(world, f"s{n}", token=other).commit().status for n in range(3)] == [200, 200, 429]
    world.ok("DELETE /sinks/s1", token=app)
    assert Batch(world, "s2", token=other).commit().status == 200


def test_single_batches_of_a_user_push_out_its_own(world: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_log, "ONCE_USER_MAX", 2)
    app, other = (world.add_user(name, write=".*") for name in ("app", "other"))
    Batch(world, "kept", token=other).commit(once=True)
    for number in range(4):
        assert Batch(world, f"s{number}", token=app).commit(once=True).status == 200
    names = [[each["name"] for each in world.ok("GET /sinks", token=token)["sinks"]] for token in (app, other)]
    assert names == [["s2", "s3"], ["kept"]]
