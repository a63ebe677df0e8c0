"""Rows that are published as a stretch are the same messages as those that are published one by one."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leveret
from leveret.core.broker import Broker
from leveret.core.message import Message
from leveret.core.ports import Journal
from leveret.core.tables import encode_table
from leveret.ingest.publishing import PublishedRows, publish
from leveret.ingest.row_groups import COLUMNS, ColumnBuffers, RowGroup, constant
from leveret.ingest.rows import PACKED, IngestRows, RowRun
from leveret.storage.journal.journal import FileJournal
from tests.ingest.batches import bodies, numbers, row_group, texts

NOW_MS = 1_700_000_000_000
NUMBERS = sorted(name for name in PACKED if COLUMNS[name].kind == "number")
TEXTS = sorted(name for name in PACKED if COLUMNS[name].kind == "text")
SHORT = st.text(max_size=60).map(str.encode)


def core_with(name: str = "orders", **arguments: Any) -> Broker:
    core = Broker(Journal())
    core.tick(NOW_MS)
    core.declare_queue("/", name, **arguments)
    return core


def facts(message: Message) -> tuple[Any, ...]:
    times = (message.enqueued_ms, message.expiry_ms, message.due_ms)
    return (message.route, message.content, message.header_len, message.priority, message.flags, message.group, *times)


def messages(core: Broker) -> list[tuple[Any, ...]]:
    return [facts(message) for _, message in sorted(core.journal.bodies.items())]


def stretch_of(data: bytes, first: int = 0) -> RowRun:
    found = IngestRows(RowGroup(data), 1_000).row_run(first)
    assert found is not None
    return found


@st.composite
def columns(draw: st.DrawFn, rows: int) -> list[ColumnBuffers]:
    """Some plain columns: the same of all rows, or one for each with gaps."""
    found = [constant("queue", "orders")]
    for name in draw(st.lists(st.sampled_from(NUMBERS + TEXTS), unique=True)):
        number = st.integers(0, COLUMNS[name].most)
        cells: st.SearchStrategy[Any] = number if name in NUMBERS else SHORT
        if draw(st.booleans()):
            found.append(constant(name, draw(cells)))
        else:
            values = draw(st.lists(st.none() | cells, min_size=rows, max_size=rows))
            found.append((numbers if name in NUMBERS else texts)(name, values))
    return found


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_a_stretch_is_the_same_as_its_rows(data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | st.binary(max_size=20), min_size=1, max_size=6))
    rows = IngestRows(RowGroup(row_group(values, *data.draw(columns(len(values))))), 1_000)
    first = data.draw(st.integers(0, len(values) - 1))
    row_run = rows.row_run(first)
    assert row_run is not None
    one_by_one, at_once = core_with(), core_with()
    for row in rows.read(first):
        assert publish(one_by_one, "/", [row]) == PublishedRows(1, 0)
    for part in row_run.cut(data.draw(st.integers(1, 6)), data.draw(st.integers(0, 50))):
        assert publish(at_once, "/", part) == PublishedRows(len(part), 0)
    assert messages(at_once) == messages(one_by_one)


@pytest.mark.parametrize(
    "more",
    [
        [texts("queue", [b"orders", b"others"])],
        [constant("queue", "orders"), texts("dedup_id", [b"a", b"b"])],
        [constant("queue", "orders"), texts("message_group_id", [b"a", b"b"])],
        [constant("queue", "orders"), texts("message_id", [b"\xc3", b"\xa4"])],
        [constant("queue", "orders"), texts("message_id", [b"\xff", b"b"])],
        [constant("queue", "orders"), texts("key", [b"\xff", b"b"])],
        [constant("queue", "orders"), constant("headers", encode_table({"a": 1})), texts("key", [b"a", b"b"])],
    ],
)
def test_rows_that_need_a_look_are_no_stretch(more: list[ColumnBuffers]) -> None:
    assert IngestRows(RowGroup(row_group([b"1", b"2"], *more)), 1_000).row_run(0) is None


def test_bodies_that_are_too_large_are_no_stretch() -> None:
    assert IngestRows(RowGroup(row_group([b"12", b"123"])), 2).row_run(0) is None


def test_a_queue_that_refuses_takes_a_stretch_row_by_row() -> None:
    core = core_with(arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    row_run = stretch_of(row_group(bodies(0, 5)), 1)
    assert publish(core, "/", row_run) == PublishedRows(2, 0)
    assert [row.body for row in row_run.after(2)] == bodies(3, 2)


def test_a_full_disk_takes_nothing_of_a_stretch(tmp_path: Path) -> None:
    with leveret.open(tmp_path) as broker:
        broker.queue("orders")
        with broker.runtime as core:
            assert isinstance(core.journal, FileJournal)
            core.journal.refuse_publishes(True)
            assert publish(core, "/", stretch_of(row_group(bodies(0, 5)))) == PublishedRows(0, 0)
            core.journal.refuse_publishes(False)
            assert publish(core, "/", stretch_of(row_group(bodies(0, 5)))) == PublishedRows(5, 0)
