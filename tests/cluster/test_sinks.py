"""Batches of sinks on nodes: all rows in the queues of whatever shards, each once, whoever fails on the way."""

from __future__ import annotations

from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

import leveret
from leveret.cluster.coordination.placement import stable_hash
from leveret.cluster.transfer import destination_sender, outbox
from leveret.core.tables import encode_table
from leveret.ingest import roll_forward
from leveret.ingest.roll_forward import RollForward
from leveret.ingest.row_groups import ColumnBuffers, constant
from tests.cluster.cluster import SHARDS, Served, name_in
from tests.cluster.coordination.memory_log import MemoryLog
from tests.cluster.web_cluster import WebCluster
from tests.ingest.batches import numbers, row_group, texts

QUEUES = [name_in(shard, "q") for shard in range(SHARDS)]
SINK = "s"
HOME = str(stable_hash("sink", "/", "guest", SINK) % SHARDS)
OTHER = next(shard for shard in range(SHARDS) if str(shard) != HOME)
AWAY = QUEUES[OTHER]
LARGE = b"x" * 300_000


class DiskCluster(WebCluster):
    """Two nodes, whose shards are in directories."""

    def __init__(self, disk: Path, log: MemoryLog | None = None) -> None:
        self.disk = disk
        self._known = log
        super().__init__("a", "b")

    def _serve(self, name: str, shard_id: str) -> None:
        broker = leveret.open(self.disk / shard_id, sync="never", spare_bytes=0, segment_bytes=1 << 16)
        self.members[name].serve(shard_id, Served(self.members[name].proxies.access, broker=broker))

    async def _add(self, name: str) -> None:
        self.log = self._known or self.log
        await super()._add(name)

    def image(self, disk: Path) -> Path:
        """What is left of the shards if everything fails now: the one of the sink may know less than the others."""
        brokers = {
            shard_id: served.broker for each in self.members.values() for shard_id, served in each.shards.items()
        }
        for shard_id in (HOME, *(str(shard) for shard in range(SHARDS) if str(shard) != HOME)):
            brokers[shard_id].flush()
            copytree(self.disk / shard_id, disk / shard_id)
        return disk

    def stage(self, part: str, values: list[bytes], *columns: ColumnBuffers) -> dict[str, Any]:
        """Stage a part of one piece; give what a commit says of it."""
        staged = self.ok("a", f"PUT /sinks/{SINK}/parts/{part}/0", row_group(values, *columns))
        assert staged == {"rows": len(values)}
        return {"part": part, "pieces": 1}

    def commit(self, name: str, rows: int, *parts: dict[str, Any], batch: int = 0, **options: Any) -> Any:
        body = {"parts": list(parts), "rows": rows, **options}
        return self.ask(name, f"POST /sinks/{SINK}/batches/{batch}", body)

    def declare(self) -> None:
        for name in QUEUES:
            self.ok("a", f"PUT /queues/{name}", {})

    def received(self, name: str) -> list[str]:
        """Everything in a queue, taken."""
        found: list[str] = []
        while taken := self.ok("b", f"POST /queues/{name}/dequeue", {"max_messages": 10})["messages"]:
            found += [_text(message) for message in taken]
        return found

    def quiet(self) -> bool:
        """Whether nothing is on its way."""
        return all(box.depth == 0 for each in self.members.values() for box in each.node.outboxes.values())


def _text(message: dict[str, Any]) -> str:
    """The body of a message as REST tells it."""
    return b64decode(message["payload_base64"]).decode()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DiskCluster]:
    made = DiskCluster(tmp_path / "disk")
    made.declare()
    yield made
    made.close()


def test_rows_reach_the_queues_of_all_shards_once(cluster: DiskCluster) -> None:
    names = [QUEUES[row % SHARDS].encode() for row in range(40)]
    part = cluster.stage("p", [b"%d" % row for row in range(40)], texts("queue", names))
    for name in "abb":
        answer = cluster.commit(name, 40, part)
        assert (answer.status, answer.json["state"], answer.json["dropped"]) == (200, "published", 0)
    cluster.wait_until(cluster.quiet)
    for shard, name in enumerate(QUEUES):
        assert cluster.received(name) == [str(row) for row in range(shard, 40, SHARDS)]
    (told,) = cluster.ok("b", "GET /sinks")["sinks"]
    assert (told["name"], told["staged_bytes"], len(told["batches"])) == (SINK, 0, 1)
    assert cluster.ask("b", f"DELETE /sinks/{SINK}").status == 204
    assert cluster.ok("a", "GET /sinks") == {"sinks": []}


def test_an_exchange_gives_rows_to_every_shard_with_all_that_they_say(cluster: DiskCluster) -> None:
    cluster.ok("a", "PUT /exchanges/spread", {"type": "topic"})
    for name in QUEUES:
        cluster.ok("a", "POST /exchanges/spread/bindings", {"destination": name, "routing_key": "all.#"})
    values = [b"late", b"large" + LARGE, b"nowhere"]
    columns = [
        constant("exchange", "spread"),
        texts("routing_key", [b"all.late", b"all.large", b"none"]),
        numbers("delay_ms", [3_600_000, None, None]),
        texts("message_id", [b"m1", b"m2", b"m3"]),
        texts("headers", [None, encode_table({"CC": ["all.copy"], "BCC": ["all.blind"]}), None]),
    ]
    part = cluster.stage("p", values, *columns)
    refused = cluster.commit("b", 3, part)
    assert refused.status == 409
    assert "1 of 3 rows would reach no queue" in refused.json["detail"]
    assert cluster.commit("b", 3, part, unroutable="drop").json["dropped"] == 1
    cluster.wait_until(cluster.quiet)
    with cluster.connect("b") as connection:
        channel = connection.channel()
        for name in QUEUES:
            got, properties, body = channel.basic_get(name, auto_ack=True)
            assert got is not None
            assert properties is not None
            assert body == values[1]
            assert (got.exchange, got.routing_key) == ("spread", "all.large")
            assert (properties.message_id, properties.headers) == ("m2", {"CC": ["all.copy"]})
            assert cluster.ok("a", f"GET /queues/{name}")["scheduled"] == 1


def test_a_stream_of_another_shard_has_the_rows_in_order(cluster: DiskCluster) -> None:
    stream = name_in(OTHER, "stream")
    cluster.ok("a", f"PUT /streams/{stream}", {})
    part = cluster.stage("p", [b"%d" % row for row in range(5)], constant("queue", stream))
    assert cluster.commit("b", 5, part).json["state"] == "published"
    cluster.wait_until(cluster.quiet)
    records = cluster.ok("b", f"GET /streams/{stream}/records?offset=first")["records"]
    assert [_text(record) for record in records] == [str(row) for row in range(5)]


def test_rows_of_one_deduplication_id_are_one_message(cluster: DiskCluster) -> None:
    columns = [constant("queue", AWAY), constant("dedup_id", "same")]
    first, second = cluster.stage("p", [b"1", b"2"], *columns), cluster.stage("q", [b"3"], *columns)
    assert cluster.commit("a", 2, first).status == 200
    assert cluster.commit("a", 1, second, batch=1).status == 200
    cluster.wait_until(cluster.quiet)
    assert cluster.received(AWAY) == ["1"]


def test_equal_large_rows_are_one_message_of_another_shard(cluster: DiskCluster) -> None:
    cluster.ok("a", f"PATCH /queues/{AWAY}", {"content_dedup": True})
    part = cluster.stage("p", [LARGE, LARGE, b"1", b"1"], constant("queue", AWAY))
    assert cluster.commit("a", 4, part).status == 200
    cluster.wait_until(cluster.quiet)
    assert cluster.received(AWAY) == [LARGE.decode(), "1"]


def test_rows_wait_for_a_full_queue_of_another_shard(cluster: DiskCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "ROWS_MAX", 2)
    cluster.ok("a", f"PATCH /queues/{AWAY}", {"max_length": 3, "overflow": "reject-publish"})
    part = cluster.stage("p", [b"%d" % row for row in range(9)], constant("queue", AWAY))
    monkeypatch.setattr("leveret.ingest.sinks.COMMIT_S", 0.05)
    cluster.wait_until(lambda: cluster.commit("a", 9, part).json["done"] == 5)
    assert cluster.commit("b", 9, part).json["state"] == "publishing"
    found: list[str] = []
    while len(found) < 9:
        for taken in cluster.ok("b", f"POST /queues/{AWAY}/dequeue", {"max_messages": 10, "wait_seconds": 1})[
            "messages"
        ]:
            found.append(_text(taken))
            receipt = {"receipt_handle": taken["receipt_handle"]}
            assert cluster.ask("a", f"DELETE /queues/{AWAY}/messages/-", receipt).status == 204
    cluster.wait_until(lambda: cluster.commit("a", 9, part).json["state"] == "published")
    cluster.wait_until(cluster.quiet)
    assert found + cluster.received(AWAY) == [str(row) for row in range(9)]


def test_what_was_staged_is_found_by_the_next_owner(cluster: DiskCluster) -> None:
    part = cluster.stage("p", [b"1", b"2"], constant("queue", AWAY))
    cluster.move(HOME, "a" if cluster.owners[HOME] == "b" else "b")
    again = cluster.stage("q", [b"3"], constant("queue", QUEUES[int(HOME)]))
    assert cluster.ask("a", f"POST /sinks/{SINK}/abort", {"parts": ["q"]}).status == 204
    assert cluster.commit("b", 3, part, again).status == 404
    assert cluster.commit("b", 2, part).json["state"] == "published"
    cluster.wait_until(cluster.quiet)
    assert cluster.received(AWAY) == ["1", "2"]
    assert cluster.received(QUEUES[int(HOME)]) == []


def test_whenever_all_fails_each_row_comes_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 12
    monkeypatch.setattr(roll_forward, "CHUNK_ROWS", 4)
    cluster = DiskCluster(tmp_path / "disk")
    images: list[Path] = []
    load, end = RollForward.load, destination_sender.DestinationSender._end

    def imaged_load(self: RollForward) -> None:
        images.append(cluster.image(tmp_path / f"image{len(images)}"))
        load(self)

    def unnoticed(self: destination_sender.DestinationSender, turn: destination_sender.Turn) -> None:
        """The letters are there, and the shard that sent them does not note it."""
        self._turn = None
        self.wake()

    monkeypatch.setattr(RollForward, "load", imaged_load)
    monkeypatch.setattr(destination_sender.DestinationSender, "_end", unnoticed)
    try:
        cluster.declare()
        values = [b"%d" % row for row in range(rows)]
        part = cluster.stage("p", values, texts("queue", [QUEUES[row % SHARDS].encode() for row in range(rows)]))
        assert cluster.commit("b", rows, part).json["state"] == "published"
        cluster.wait_until(lambda: all(cluster.has(name, rows // SHARDS) for name in QUEUES))
        images.append(cluster.image(tmp_path / "last"))
    finally:
        cluster.close()
    monkeypatch.setattr(RollForward, "load", load)
    monkeypatch.setattr(destination_sender.DestinationSender, "_end", end)
    assert len(images) >= 4
    for image in images:
        again = DiskCluster(image, cluster.log)
        try:
            assert again.commit("a", rows, part).json["state"] == "published"
            again.wait_until(again.quiet)
            assert Counter(body for name in QUEUES for body in again.received(name)) == Counter(
                str(row) for row in range(rows)
            )
        finally:
            again.close()
