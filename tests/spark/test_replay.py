"""Replay: what is chosen and changed, and that every message is published once."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import leveret
from leveret.core.errors import DamagedJournal, DataLocked, InvalidArgument, PreconditionFailed
from leveret.spark.edits import Aim
from leveret.spark.publishing import Pace, SinkBroker
from leveret.spark.replay import ReplayRequest, dry_run, prepared, replay
from leveret.spark.tables import read_table
from leveret.storage.disk import Disk
from tests.protocols.rest.world import RestWorld

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REQUEST = ReplayRequest(
    "queue = 'graveyard' and headers['number'] >= 2", ("routing_key = concat('retry.', routing_key)",)
)


class LostAnswer:
    """Publishes to a real broker, and forgets once that it did so."""

    def __init__(self, world: RestWorld, forgotten: int) -> None:
        self._broker = SinkBroker(world.url, world.token)
        self._forgotten: int | None = forgotten

    def __call__(self, rows: DataFrame, sink: str, batch: int) -> None:
        self._broker.publish(rows, sink, batch)
        if batch == self._forgotten:
            self._forgotten = None
            raise ConnectionError("the answer was lost")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RestWorld]:
    with leveret.open(tmp_path / "data", sync="never") as broker, RestWorld(broker) as running:
        yield running


@pytest.fixture(scope="module")
def messages(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Seven orders, and as dead letters again."""
    path = tmp_path_factory.mktemp("dead")
    with leveret.open(path, sync="never") as broker:
        broker.queue("graveyard")
        orders = broker.queue("orders", dead_letter="graveyard")
        for number in range(7):
            orders.send(f"order {number}".encode(), headers={"number": number})
            orders.receive()[0].reject()
    return read_table(spark, "messages", path=str(path)).cache()


def test_a_replay_that_is_interrupted_publishes_every_message_once(
    messages: DataFrame, world: RestWorld, tmp_path: Path
) -> None:
    publish, shares = LostAnswer(world, 1), list[tuple[int, int]]()
    queue = world.broker.queue("retry.orders")

    def told(done: int, whole: int) -> None:
        shares.append((done, whole))

    def run(request: ReplayRequest = REQUEST) -> int:
        return replay(messages, request, str(tmp_path / "checkpoint"), publish, Pace(None), 2, told).published

    with pytest.raises(ConnectionError):
        run()
    assert run() == 5
    assert (shares[0], shares[-1]) == ((2, 5), (5, 5))
    assert shares == sorted(shares)
    assert run() == 5
    found = queue.receive(10)
    assert [message.data for message in found] == [f"order {number}".encode() for number in range(2, 7)]
    assert [message.headers for message in found] == [{"number": str(number)} for number in range(2, 7)]


def test_messages_without_headers_are_published_again_with_their_priority_and_time(
    spark: SparkSession, world: RestWorld, tmp_path: Path
) -> None:
    with leveret.open(tmp_path / "bare", sync="never") as broker:
        bare = broker.queue("bare", max_priority=9)
        bare.send(b"first", priority=5)
        bare.send(b"second", properties={"timestamp": 1_700_000_000})
    world.broker.queue("again", max_priority=9)
    stored = read_table(spark, "messages", path=str(tmp_path / "bare"))
    publish = SinkBroker(world.url, world.token).publish
    request = ReplayRequest(aim=Aim(queue="again"))
    assert replay(stored, request, str(tmp_path / "checkpoint"), publish, Pace(None)).published == 2
    found = {message.data: message for message in world.broker.queue("again").receive(10)}
    assert (found[b"first"].priority, found[b"first"].headers) == (5, {})
    assert found[b"second"].properties.timestamp == 1_700_000_000


def test_a_checkpoint_is_of_one_replay_and_one_process(messages: DataFrame, tmp_path: Path) -> None:
    def run(request: ReplayRequest = REQUEST) -> int:
        return replay(messages, request, str(tmp_path), lambda rows, sink, batch: None, Pace(None)).published

    assert run() == 5
    with pytest.raises(PreconditionFailed, match="another replay"):
        run(ReplayRequest("true"))
    disk = Disk(tmp_path)
    disk.lock()
    with pytest.raises(DataLocked):
        run()
    disk.unlock()
    (tmp_path / "state.json").write_text(json.dumps({"files": 1}))
    with pytest.raises(DamagedJournal, match="begin again"):
        run()


def test_a_dry_run_tells_what_would_go_where(messages: DataFrame) -> None:
    found = dry_run(messages, REQUEST)
    assert (found.messages, found.without_body) == (5, 0)
    assert found.targets == [{"exchange": "", "routing_key": "retry.orders", "messages": 5}]
    assert found.sample[0]["body"] == "order 2"
    aimed = dry_run(messages, ReplayRequest("queue = 'graveyard'", aim=Aim(exchange="again"), limit=3))
    assert aimed.targets == [{"exchange": "again", "routing_key": "graveyard", "messages": 3}]


def test_what_brokers_wrote_into_messages_is_not_published_again(messages: DataFrame) -> None:
    (row,) = prepared(messages, ReplayRequest(REQUEST.where, limit=1)).collect()
    assert row["headers"] == {"number": "2"}
    assert row["value"] == b"order 2"


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (ReplayRequest("no_such_column = 1"), "no_such_column"),
        (ReplayRequest("queue ="), "where"),
        (ReplayRequest(edits=("queue = 'other'",)), "write COLUMN = EXPRESSION"),
        (ReplayRequest(edits=("routing_key",)), "write COLUMN = EXPRESSION"),
        (ReplayRequest(edits=("priority = no_such",)), "no_such"),
        (ReplayRequest(edits=("type = 'a'", "type = 'b'")), "twice"),
    ],
)
def test_sql_that_means_nothing_is_refused(messages: DataFrame, request_: ReplayRequest, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        dry_run(messages, request_)


def test_arguments_that_mean_nothing_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="one of them"):
        Aim("queue", "exchange")
    with pytest.raises(InvalidArgument, match="limit"):
        ReplayRequest(limit=0)
    with pytest.raises(InvalidArgument, match="rate"):
        Pace(0)
    with pytest.raises(InvalidArgument, match="batch_rows"):
        Pace(None).batch_rows(0)


def test_a_rate_is_kept_by_waiting_before_each_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = leveret.ManualClock(1_000)
    pace = Pace(10, clock)
    assert pace.batch_rows() == 50
    waits: list[int] = []

    def wait(gate: threading.Lock, until_ms: int) -> bool:
        waits.append(until_ms)
        clock.advance((until_ms - clock.now_ms()) / 1000)
        return False

    monkeypatch.setattr(clock, "wait", wait)
    for _ in range(3):
        pace.wait(50)
    assert waits == [6_000, 11_000]
