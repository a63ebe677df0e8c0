"""Streams of a broker on PostgreSQL: stored with the frames of its journal, by whoever owns it, and nobody else."""

import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

import leveret
from leveret.core.errors import JournalFailed
from leveret.runtime import storage
from leveret.storage.journal.postgres.statements import PostgresTable
from leveret.storage.journal.postgres.table import SegmentRow, Unknown
from leveret.storage.stream import postgres
from tests.postgres_server import PostgresServer
from tests.waiting import PATIENCE_S

SEGMENT_BYTES = 1 << 10


def bodies(stream: leveret.Stream, offset: int | str = "first") -> list[object]:
    return [record.body for record in stream.read(offset=offset)]


def tables(postgres: PostgresServer, url: str) -> list[str]:
    """The tables of segments of streams."""
    schema = url.rpartition("%3D")[2]
    named = f"schemaname = '{schema}' and tablename like 'leveret\\_stream\\_%'"
    return [str(name) for (name,) in postgres.sql(f"select tablename from pg_tables where {named} order by 1")]


def segments(postgres: PostgresServer, url: str) -> int:
    """How many segments are in streams."""
    ((count,),) = postgres.sql(f"select count(*) from {url.rpartition('%3D')[2]}.leveret_stream")
    return int(str(count))


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let segments in tables be as small as in files."""
    monkeypatch.setattr(storage, "TABLE_SEGMENT_BYTES_MIN", SEGMENT_BYTES)


def once(fault: Callable[[PostgresTable, SegmentRow], bool]) -> Callable[[PostgresTable, SegmentRow], bool]:
    """An append in which something happens to the first frame that has records of streams."""
    append, met = PostgresTable.append, threading.Event()

    def faulty(table: PostgresTable, row: SegmentRow) -> bool:
        if not row.beside or met.is_set():
            return append(table, row)
        met.set()
        return fault(table, row)

    return faulty


@pytest.mark.parametrize("done", [False, True])
def test_records_whose_outcome_is_unknown_are_there_once(
    store_url: str, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    append = PostgresTable.append

    def lose_answer(table: PostgresTable, row: SegmentRow) -> bool:
        if done:
            assert append(table, row)
        raise Unknown("the answer was lost")

    with leveret.open(store_url) as broker:
        clicks = broker.stream("clicks", partitions=3)
        monkeypatch.setattr(PostgresTable, "append", once(lose_answer))
        sent = clicks.send_many([b"%d" % number for number in range(30)])
        assert len(clicks.send_many([b"more"])) == 1
    with leveret.open(store_url) as broker:
        clicks = broker.stream("clicks")
        found = {record.body for partition in range(3) for record in clicks.read(partition, "first")}
        assert (len(sent), len(found), clicks.stats().records) == (30, 31, 31)


def test_records_of_a_process_that_died_before_the_answer_are_known_to_the_next(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = PostgresTable.append

    def die(table: PostgresTable, row: SegmentRow) -> bool:
        assert append(table, row)
        raise JournalFailed("killed")

    with leveret.open(store_url, on_failure="raise") as broker:
        clicks = broker.stream("clicks")
        clicks.send("first", producer="till", sequence=1)
        monkeypatch.setattr(PostgresTable, "append", once(die))
        with pytest.raises(JournalFailed, match="killed"):
            clicks.send("second", producer="till", sequence=2)
    with leveret.open(store_url) as broker:
        clicks = broker.stream("clicks")
        assert bodies(clicks) == ["first", "second"]
        clicks.send("second", producer="till", sequence=2)
        clicks.send("third", producer="till", sequence=3)
        assert bodies(clicks) == ["first", "second", "third"]


@pytest.mark.usefixtures("small_segments")
def test_an_owner_who_was_replaced_appends_nothing(store_url: str, postgres: PostgresServer) -> None:
    with leveret.open(store_url, on_failure="raise") as first:
        old = first.stream("clicks", segment_bytes=SEGMENT_BYTES)
        old.send("kept")
        with leveret.open(store_url, on_failure="raise") as second:
            with pytest.raises(leveret.Fenced, match="has taken over this store"):
                old.send(b"." * SEGMENT_BYTES)
            new = second.stream("clicks")
            assert new.send("and on").offset == 1
            assert bodies(new) == ["kept", "and on"]
        first.runtime.streams.retain(0)
    assert len(tables(postgres, store_url)) == segments(postgres, store_url) == 1


def test_nothing_is_read_before_it_is_durable(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sending, going = threading.Event(), threading.Event()
    append = PostgresTable.append

    def wait(table: PostgresTable, row: SegmentRow) -> bool:
        sending.set()
        assert going.wait(PATIENCE_S)
        return append(table, row)

    with leveret.open(store_url) as broker:
        clicks = broker.stream("clicks")
        clicks.send("durable")
        monkeypatch.setattr(PostgresTable, "append", once(wait))
        sender = threading.Thread(target=clicks.send, args=("under way",))
        sender.start()
        try:
            assert sending.wait(PATIENCE_S)
            assert bodies(clicks) == ["durable"]
        finally:
            going.set()
            sender.join()
        assert bodies(clicks) == ["durable", "under way"]


def test_a_commit_of_many_partitions_is_one_transaction(store_url: str) -> None:
    with leveret.open(store_url, clock=leveret.ManualClock()) as broker:
        clicks = broker.stream("clicks", partitions=16)
        clicks.send_many(["a"] * 64)
        store = broker.runtime.store
        assert store is not None
        before = store.syncs
        clicks.send_many(["b"] * 64)
        assert store.syncs <= before + 2, "the end of the log may be marked meanwhile, once"


@pytest.mark.usefixtures("small_segments")
def test_tables_go_with_what_was_in_them(store_url: str, postgres: PostgresServer) -> None:
    with leveret.open(store_url, clock=leveret.ManualClock()) as broker:
        streams = broker.runtime.streams
        clicks = broker.stream("clicks", max_bytes=3 * SEGMENT_BYTES, segment_bytes=SEGMENT_BYTES)
        kept = broker.stream("kept")
        kept.send("x")
        for _ in range(20):
            clicks.send(b"." * 500)
        before = segments(postgres, store_url)
        with clicks.reader(offset="first") as reader:
            assert reader.read(1)
            streams.retain(0)
            kept.send("takes the removal with it")
            assert segments(postgres, store_url) < before
            assert len(tables(postgres, store_url)) == before
            streams.retain(0)
            assert len(tables(postgres, store_url)) == segments(postgres, store_url) + 1, "somebody reads one"
        streams.retain(0)
        assert len(tables(postgres, store_url)) == segments(postgres, store_url)
        clicks.delete()
        streams.remove(streams.take_gone())
        streams.retain(0)
        assert len(tables(postgres, store_url)) == segments(postgres, store_url) == 1


@pytest.mark.usefixtures("small_segments")
def test_segments_that_are_too_old_before_they_are_durable_go_as_well(
    store_url: str, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = PostgresTable.append
    with leveret.open(store_url) as broker:
        streams = broker.runtime.streams
        clicks = broker.stream("clicks", max_bytes=400_000, segment_bytes=SEGMENT_BYTES)
        clicks.send(b"first")

        def retain(table: PostgresTable, row: SegmentRow) -> bool:
            streams.retain(0)
            return append(table, row)

        monkeypatch.setattr(PostgresTable, "append", once(retain))
        clicks.send_many([b"." * 100_000] * 20)  # several blocks, and a segment for each
        clicks.send(b"last")
        streams.retain(0)
        kept = bodies(clicks)
        assert 1 < len(kept) < 21
    with leveret.open(store_url) as broker:
        assert bodies(broker.stream("clicks")) == kept
        assert len(tables(postgres, store_url)) == segments(postgres, store_url)


def test_what_was_left_behind_goes_when_the_store_is_opened(store_url: str, postgres: PostgresServer) -> None:
    with leveret.open(store_url) as broker:
        broker.stream("clicks").send("x")
    schema = store_url.rpartition("%3D")[2]
    postgres.sql(f"create table {schema}.leveret_stream_0_99_0_0 (start bigint primary key, data bytea not null)")
    postgres.sql(f"create table {schema}.leveret_stream_0_98_0_0 (start bigint primary key, data bytea not null)")
    postgres.sql(f"insert into {schema}.leveret_stream values (0, 98, 0, 0)")
    with leveret.open(store_url) as broker:
        broker.runtime.streams.retain(0)
        assert (len(tables(postgres, store_url)), segments(postgres, store_url)) == (1, 1)
        assert bodies(broker.stream("clicks")) == ["x"]


@pytest.mark.usefixtures("small_segments")
def test_a_backup_does_not_hold_up_the_broker(store_url: str, postgres: PostgresServer) -> None:
    with leveret.open(store_url) as broker:
        clicks = broker.stream("clicks", max_bytes=2 * SEGMENT_BYTES, segment_bytes=SEGMENT_BYTES)
        for _ in range(10):
            clicks.send(b"." * 500)
        with psycopg.connect(postgres.url()) as backup:
            for name in tables(postgres, store_url):
                backup.execute(f"select 1 from {store_url.rpartition('%3D')[2]}.{name}".encode())
            broker.runtime.streams.retain(0)
            clicks.send("goes on")
            broker.runtime.streams.retain(0)
            assert len(tables(postgres, store_url)) > segments(postgres, store_url)
        broker.runtime.streams.retain(0)
        assert len(tables(postgres, store_url)) == segments(postgres, store_url)


def test_a_table_is_not_made_for_every_few_records(store_url: str, postgres: PostgresServer) -> None:
    with leveret.open(store_url) as broker:
        clicks = broker.stream("clicks", segment_bytes=SEGMENT_BYTES)
        for _ in range(5):
            clicks.send(b"." * SEGMENT_BYTES)
        broker.runtime.streams.retain(0)
        clicks.send(b"." * SEGMENT_BYTES)
        assert len(tables(postgres, store_url)) == 1


@pytest.mark.usefixtures("small_segments")
def test_old_records_are_read_back_in_pages(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "PAGE_BYTES", 1 << 10)
    monkeypatch.setattr(postgres, "PAGES_MAX", 3)
    sent = [b"%d " % number * 40 for number in range(300)]
    with leveret.open(store_url) as broker:
        clicks = broker.stream("clicks", segment_bytes=16 << 10)
        for start in range(0, 300, 7):
            clicks.send_many(sent[start : start + 7])
        assert bodies(clicks) == sent
    with leveret.open(store_url) as broker:
        clicks = broker.stream("clicks")
        assert bodies(clicks) == sent
        assert bodies(clicks, 123) == sent[123:]
        clicks.send("more")
        assert bodies(clicks, 299) == [sent[299], "more"]


def test_streams_are_encrypted_at_rest(store_url: str, postgres: PostgresServer, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("00" * 32)
    with leveret.open(store_url, encryption_key_file=str(keys)) as broker:
        broker.stream("clicks").send("a secret text")
    (name,) = tables(postgres, store_url)
    stored = postgres.sql(f"select data from {store_url.rpartition('%3D')[2]}.{name}")
    assert b"a secret text" not in b"".join(bytes(data) for (data,) in stored)  # type: ignore[call-overload]
    with leveret.open(store_url, encryption_key_file=str(keys)) as broker:
        assert bodies(broker.stream("clicks")) == ["a secret text"]


def test_large_bodies_are_in_the_stream(store_url: str) -> None:
    with leveret.open(store_url) as broker:
        broker.stream("clicks")
        everywhere = broker.exchange("all", "fanout")
        everywhere.bind("clicks")
        everywhere.publish("", b"x" * 10_000_000)
    with leveret.open(store_url) as broker:
        assert bodies(broker.stream("clicks"), 0) == [b"x" * 10_000_000]
