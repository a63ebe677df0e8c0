"""Rows for queues of other shards: each way is looked for once, and no more is read than there is room for."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from leveret.core.broker import Broker
from leveret.core.ports import Journal
from leveret.core.properties import Properties
from leveret.ingest import publishing
from leveret.ingest.publishing import PublishedRows, publish
from leveret.ingest.row_groups import RowGroup, constant
from leveret.ingest.rows import IngestRows
from tests.ingest.batches import bodies, row_group, texts

QUEUES = ["one", "two", "three"]


class Bag:
    """What is sent to one queue."""

    def __init__(self, room: int) -> None:
        self.room_left = room
        self.bodies: list[bytes] = []

    def room(self) -> int:
        return self.room_left

    def send(self, body: bytes, **options: Any) -> None:
        self.room_left -= 1
        self.bodies.append(body)


class OtherShards:
    """Shards that have all queues, with so much room in the outbox for each."""

    def __init__(self, room: int) -> None:
        self.core = Broker(Journal())
        for name in QUEUES:
            self.core.declare_queue("/", name)
        self.bags = {name: Bag(room) for name in QUEUES}
        self.asked: list[str] = []

    def definitions(self) -> AbstractContextManager[Broker]:
        return nullcontext(self.core)

    def shard_route(self, vhost: str, exchange: str, routing_key: str, keys: list[str], properties: Properties) -> Bag:
        self.asked.append(routing_key)
        return self.bags[routing_key]


def test_a_way_is_looked_for_once() -> None:
    others = OtherShards(room=100)
    names = [QUEUES[row % len(QUEUES)].encode() for row in range(12)]
    rows = list(IngestRows(RowGroup(row_group(bodies(0, 12), texts("queue", names))), 1_000).read())
    assert publish(Broker(Journal()), "/", rows, other_shards=others) == PublishedRows(12, 0)
    assert others.asked == QUEUES
    assert [others.bags[name].bodies for name in QUEUES] == [bodies(0, 12)[first::3] for first in range(3)]


def test_rows_without_room_are_not_all_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "RUN_ROWS", 5)
    row_run = IngestRows(RowGroup(row_group(bodies(0, 1_000), constant("queue", "one"))), 1_000).row_run(0)
    assert row_run is not None
    read: list[int] = []
    cell = RowGroup.cell

    def noted(self: RowGroup, name: str, row: int) -> Any:
        read.append(row)
        return cell(self, name, row)

    monkeypatch.setattr(RowGroup, "cell", noted)
    others = OtherShards(room=7)
    assert publish(Broker(Journal()), "/", row_run, other_shards=others) == PublishedRows(7, 0)
    assert others.bags["one"].bodies == bodies(0, 7)
    assert max(read) < 15
