"""What is read from directories, without Spark: the reader is called as Spark would call it."""

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition

import leveret
from leveret.core.errors import DamagedJournal, InvalidArgument, NotFound, WrongKey
from leveret.core.names import INTERNAL_VHOST
from leveret.core.properties import Properties
from leveret.runtime.bodies import BYTES_TYPE, HEADERS
from leveret.spark.segments import number_of
from leveret.spark.source import LeveretSource
from tests.spark.history import reader_of, rows_of, small_history
from tests.waiting import wait_until

KEY = "11" * 32


def segments(path: Path) -> list[Path]:
    return sorted(path.glob("seg-*.log"))


def test_events_tell_a_whole_history_in_order(tmp_path: Path) -> None:
    small_history(tmp_path)
    found = [(row["event"], row["queue"], row["seq"], row["reason"]) for row in rows_of(tmp_path)]
    assert [row for row in found if row[0] not in ("defined", "started", "counted")] == [
        ("published", "orders", 1, None),
        ("published", "orders", 2, None),
        ("published", "orders", 3, None),
        ("published", "orders", 4, None),
        ("delivered", "orders", 1, None),
        ("settled", "orders", 1, "acked"),
        ("delivered", "orders", 2, None),
        ("returned", "orders", 2, "nacked"),
        ("delivered", "orders", 2, None),
        ("settled", "orders", 2, "acked"),
        ("delivered", "orders", 3, None),
        ("settled", "orders", 3, "rejected"),
        ("purged", "orders", 5, None),
        ("published", "orders", 5, None),
        ("published", "invoices", 6, None),
    ]


def test_messages_come_with_body_route_and_properties(tmp_path: Path) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    with leveret.open(tmp_path, sync="never") as broker:
        queue = broker.queue("orders", max_priority=9)
        queue.send(b"body", priority=7, headers={"kind": "order", "count": 3, "express": True}, group="g", delay=60)
    (row,) = rows_of(tmp_path, table="messages")
    assert row["value"] == b"body"
    assert (row["vhost"], row["queue"], row["exchange"], row["routing_key"]) == ("/", "orders", "", "orders")
    assert (row["priority"], row["bytes"], row["offset"]) == (7, 4, 1)
    assert {"kind": "order", "count": "3", "express": "true"}.items() <= dict(row["headers"]).items()
    assert row["message_group_id"] == "g"
    assert before < row["enqueued_at"] < row["due_at"] - timedelta(seconds=59)


def test_an_empty_body_is_no_missing_one(tmp_path: Path) -> None:
    with leveret.open(tmp_path, sync="never") as broker:
        broker.queue("orders").send(b"")
    assert [row["value"] for row in rows_of(tmp_path, table="messages")] == [b""]


def test_a_dead_letter_tells_where_it_died(tmp_path: Path) -> None:
    with leveret.open(tmp_path, sync="never") as broker:
        broker.queue("graveyard")
        broker.queue("orders", dead_letter="graveyard").send(b"bad")
        broker.queue("orders", dead_letter="graveyard").receive()[0].reject()
    found = rows_of(tmp_path, table="messages", queue="graveyard", columns="value,x_death")
    assert [(row["value"], row["x_death"][0]["queue"], row["x_death"][0]["reason"]) for row in found] == [
        (b"bad", "orders", "rejected")
    ]


def test_a_queue_with_a_delay_says_when_its_messages_are_due(tmp_path: Path) -> None:
    """By an argument, by a policy, and by the message itself."""
    with leveret.open(tmp_path, sync="never") as broker:
        broker.policy("slow", "^slow", {"delay": 5_000})
        broker.queue("orders", delay=3).send(b"")
        broker.queue("slow").send(b"")
        broker.queue("orders", delay=3).send(b"", delay=60)
    for table in ("events", "messages"):
        rows = [row for row in rows_of(tmp_path, table=table) if row["enqueued_at"] is not None]
        waits = [(row["queue"], (row["due_at"] - row["enqueued_at"]).total_seconds()) for row in rows]
        assert waits == [("orders", 3), ("slow", 5), ("orders", 60)]


def test_what_dies_says_whether_its_queue_keeps_dead_letters(tmp_path: Path) -> None:
    with leveret.open(tmp_path, sync="never") as broker:
        broker.queue("graveyard")
        broker.policy("kept", "^by policy", {"dead-letter-exchange": "", "dead-letter-routing-key": "graveyard"})
        for queue in (broker.queue("kept", dead_letter="graveyard"), broker.queue("by policy"), broker.queue("lost")):
            queue.send_many([b"", b""])
            queue.receive()[0].reject()
            queue.receive()[0].ack()
    settled = [row for row in rows_of(tmp_path) if row["event"] == "settled"]
    assert [(row["queue"], row["reason"], row["dead_lettered"]) for row in settled] == [
        *(("kept", reason, kept) for reason, kept in (("rejected", True), ("acked", None))),
        *(("by policy", reason, kept) for reason, kept in (("rejected", True), ("acked", None))),
        *(("lost", reason, kept) for reason, kept in (("rejected", False), ("acked", None))),
    ]


def test_what_no_client_should_send_does_not_stop_the_others(tmp_path: Path) -> None:
    bad = Properties(message_id="\udcff", timestamp=2**63, headers={"k\udcfe": b"\xff", "x-death": [{"queue": 1}]})
    with leveret.open(tmp_path, sync="never") as broker:
        broker.queue("orders")
        with broker.runtime as core:
            core.publish_through("/", "", "orders", bad, b"bad")
        broker.queue("orders").send(b"good")
    rows = rows_of(tmp_path, table="messages")
    assert [row["value"] for row in rows] == [b"bad", b"good"]
    assert (rows[0]["message_id"], rows[0]["timestamp"], rows[0]["x_death"]) == (
        "\N{REPLACEMENT CHARACTER}",
        None,
        None,
    )


def test_starts_are_told_of_with_any_queue(tmp_path: Path) -> None:
    """They say that transient messages are gone, whose queue the segment of the start may not speak of."""
    for number, name in enumerate(("orders", "invoices")):
        with leveret.open(tmp_path, sync="never", history_events="all") as broker:
            broker.queue(name)
            with broker.runtime as core:
                core.publish_through("/", "", name, Properties(delivery_mode=1), b"gone")
            assert broker.queue(name).stats().ready == 1, number
    found = [(row["event"], row["queue"]) for row in rows_of(tmp_path, queue="orders")]
    starts = [row for row in found if row[0] == "started"]
    assert ("published", "orders") in found
    assert len(starts) == 2
    assert {queue for _, queue in found} == {"orders", None}
    assert {row["queue"] for row in rows_of(tmp_path, queue="orders", table="messages")} <= {"orders"}


def test_a_message_in_several_queues_has_a_row_for_each(tmp_path: Path) -> None:
    names = [f"queue {number}" for number in range(20)]
    with leveret.open(tmp_path, sync="never") as broker:
        exchange = broker.exchange("all", "fanout")
        for name in names:
            exchange.bind(broker.queue(name))
        exchange.publish("", b"news")
    found = rows_of(tmp_path, table="messages", columns="queue,value,offset")
    assert sorted(row["queue"] for row in found) == sorted(names)
    assert {(row["value"], row["offset"]) for row in found} == {(b"news", 1)}


def test_columns_are_those_that_were_asked_for(tmp_path: Path) -> None:
    small_history(tmp_path)
    assert set(rows_of(tmp_path, columns="seq, queue")[0]) == {"seq", "queue"}
    assert LeveretSource({"path": str(tmp_path), "columns": "seq, queue"}).schema() == "`seq` bigint, `queue` string"


def test_only_wanted_queues_and_times_are_read(tmp_path: Path) -> None:
    small_history(tmp_path)
    assert {row["queue"] for row in rows_of(tmp_path, queue="invoices,none")} == {"invoices", None}
    assert {row["queue"] for row in rows_of(tmp_path, queue="invoices,none", table="messages")} == {"invoices"}
    assert rows_of(tmp_path, until="2020-01-01") == []
    assert rows_of(tmp_path, since="2020-01-01T00:00:00+02:00", table="messages") != []
    assert reader_of(tmp_path, since="2100-01-01").partitions() == []
    assert reader_of(tmp_path, queue="none", table="messages").partitions() == []


def test_segments_are_cut_into_slices_that_together_hold_every_row(tmp_path: Path) -> None:
    with leveret.open(tmp_path, sync="never") as broker:
        for _ in range(50):
            broker.queue("orders").send_many([bytes(1000)] * 20)
    reader = reader_of(tmp_path, table="messages", columns="offset", partitionbytes=str(64 << 10))
    pieces = reader.partitions()
    offsets = [row["offset"] for piece in pieces for batch in reader.read(piece) for row in batch.to_pylist()]
    assert len(pieces) > 5
    assert offsets == list(range(1, 1001))


def test_an_empty_directory_has_no_rows(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)
    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []


def test_an_archive_and_its_data_directory_are_one_history(tmp_path: Path) -> None:
    data, archive = tmp_path / "data", tmp_path / "archive"
    with leveret.open(data, sync="never", archive_dir=str(archive), segment_bytes=4096) as broker:
        queue = broker.queue("orders")
        for _ in range(40):
            queue.send(bytes(700))
            queue.receive()[0].ack()
        wait_until(lambda: len(segments(data)) <= 2)
    archived = {row["seq"] for row in rows_of(archive, columns="seq,event") if row["event"] == "published"}
    whole = [row["seq"] for row in rows_of(data, archive=str(archive)) if row["event"] == "published"]
    assert archived
    assert sorted(whole) == list(range(1, 41))
    assert {row["queue"] for row in rows_of(archive) if row["event"] == "settled"} == {"orders"}


def test_encrypted_segments_need_their_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPELINE_KEY", KEY)
    small_history(tmp_path, encryption_key_env="PIPELINE_KEY")
    plain = rows_of(tmp_path, table="messages", encryption_key_env="PIPELINE_KEY")
    assert [row["value"] for row in plain if row["queue"] == "invoices"] == [b"invoice"]
    with pytest.raises(WrongKey):
        rows_of(tmp_path)


def test_the_torn_end_of_a_log_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    small_history(tmp_path)
    whole = rows_of(tmp_path)
    with segments(tmp_path)[-1].open("ab") as file:
        file.write(b"LFRM" + bytes(20))
    assert rows_of(tmp_path) == whole


def test_a_segment_that_is_just_being_made_is_left_out(tmp_path: Path) -> None:
    small_history(tmp_path)
    whole = rows_of(tmp_path)
    last = segments(tmp_path)[-1]
    last.with_name(f"seg-{int(last.stem[4:]) + 1:020d}.log").write_bytes(b"LSEG")
    assert rows_of(tmp_path) == whole


def test_a_segment_that_went_after_it_was_planned_is_named(tmp_path: Path) -> None:
    small_history(tmp_path)
    reader = reader_of(tmp_path)
    (piece,) = reader.partitions()
    segments(tmp_path)[0].unlink()
    with pytest.raises(NotFound, match=r"has gone.*archive"):
        list(reader.read(piece))


@pytest.mark.parametrize(("history_bytes", "begins_at_1"), [(1 << 30, True), (60_000, False)])
def test_each_message_has_one_row_however_often_it_was_moved(
    tmp_path: Path, history_bytes: int, begins_at_1: bool
) -> None:
    with leveret.open(tmp_path, sync="never", segment_bytes=4096, history_bytes=history_bytes) as broker:
        orders, kept = broker.queue("orders"), broker.queue("kept")
        for number in range(200):
            if number % 50 == 0:
                kept.send(b"kept")
            orders.send(bytes(500))
            orders.receive()[0].ack()
        store = broker.runtime.store
        assert store is not None
        wait_until(lambda: store.oldest > 25)
    there = {(row["queue_id"], row["seq"]) for row in rows_of(tmp_path) if row["event"] in ("published", "moved")}
    moved = [row["seq"] for row in rows_of(tmp_path, queue="kept") if row["event"] == "moved"]
    assert len(moved) > len(set(moved)), "some were moved twice"
    messages = [(row["queue_id"], row["offset"]) for row in rows_of(tmp_path, table="messages")]
    assert sorted(messages) == sorted(there)
    assert (number_of(str(segments(tmp_path)[0])) == 1) == begins_at_1


def test_letters_between_shards_are_no_messages(tmp_path: Path) -> None:
    with leveret.open(tmp_path) as broker:
        orders = broker.queue("orders")
        with broker.runtime as core:
            core.declare_vhost(INTERNAL_VHOST)
            core.send_many(core.declare_queue(INTERNAL_VHOST, "outbox"), HEADERS[BYTES_TYPE], [b"letter"])
        orders.send("order")
    assert [row["queue"] for row in rows_of(tmp_path, table="messages")] == ["orders"]
    assert {row["queue"] for row in rows_of(tmp_path)} == {"orders", None}


def test_names_beside_an_archive_that_are_damaged_are_named(tmp_path: Path) -> None:
    (tmp_path / "seg-00000000000000000001.names.json").write_text("[]")
    with pytest.raises(DamagedJournal, match=r"names\.json is damaged"):
        rows_of(tmp_path)


def test_damage_names_the_file_and_the_offset(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    small_history(tmp_path / "data")
    archive.mkdir()
    segment = Path(shutil.copy(segments(tmp_path / "data")[0], archive))
    with segment.open("r+b") as file:
        file.seek(64 + 48 + 5)
        file.write(b"\xff")
    with pytest.raises(DamagedJournal, match=rf"{segment.name} holds a damaged frame at offset 64: restore"):
        rows_of(archive)


def test_a_slice_that_was_damaged_since_it_was_planned_is_refused(tmp_path: Path) -> None:
    small_history(tmp_path)
    reader = reader_of(tmp_path)
    (piece,) = reader.partitions()
    with segments(tmp_path)[0].open("r+b") as file:
        file.seek(64 + 48 + 5)
        file.write(b"\xff")
    with pytest.raises(DamagedJournal, match="damaged frame at offset 64"):
        list(reader.read(piece))
    os.truncate(segments(tmp_path)[0], 100)
    with pytest.raises(DamagedJournal, match="is cut at offset 100"):
        list(reader.read(piece))


@pytest.mark.parametrize(
    "options",
    [
        {"table": "other"},
        {"columns": "seq,none"},
        {"columns": "seq,seq"},
        {"since": "yesterday"},
        {"partitionbytes": "1"},
    ],
)
def test_options_that_mean_nothing_are_refused(tmp_path: Path, options: dict[str, str]) -> None:
    (name,) = options
    with pytest.raises(InvalidArgument, match=f"(?i){name}="):
        reader_of(tmp_path, **options)


def test_an_option_that_is_misspelt_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="history have no option 'quue': did you mean queue"):
        reader_of(tmp_path, quue="orders")


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nowhere"):
        rows_of(tmp_path / "nowhere")
    with pytest.raises(InvalidArgument, match="load"):
        LeveretSource({}).schema()


def test_batches_have_exactly_the_announced_types(tmp_path: Path) -> None:
    small_history(tmp_path)
    for table in ("events", "messages"):
        reader = reader_of(tmp_path, table=table)
        for piece in reader.partitions():
            for batch in reader.read(piece):
                assert batch.schema == pa.schema([(name, column.arrow) for name, column in reader.scan.chosen.items()])
                batch.validate(full=True)
