"""The journal in a real PostgreSQL: who owns it, what becomes of statements whose answer is lost, what is refused."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest

from leveret.core.errors import DamagedJournal, Fenced, InvalidArgument, JournalFailed, MessageTooLarge
from leveret.storage.journal.files.segments import segment_name
from leveret.storage.journal.postgres import blobs as postgres_blobs
from leveret.storage.journal.postgres.statements import PostgresTable
from leveret.storage.journal.postgres.store import Takeover
from leveret.storage.journal.postgres.table import SegmentRow, ShardRow, Unknown
from tests.postgres_server import PostgresServer
from tests.storage.journal.table_world import TableWorld
from tests.waiting import PATIENCE_S

Answer = TypeVar("Answer")


class Interrupted(PostgresTable):
    """A shard whose backend is ended by somebody before one of its statements, or whose answer to one is lost."""

    def __init__(self, url: str, server: PostgresServer) -> None:
        super().__init__(url)
        self._server = server
        self.faults: list[tuple[str, str]] = []

    def _meet(self, when: str, statement: str) -> None:
        if self.faults[:1] != [(when, statement)]:
            return
        del self.faults[0]
        if when == "after":
            raise Unknown("the answer was lost")
        ((pid,),) = self._log.run("select pg_backend_pid()", {})[1]
        self._server.sql(f"select pg_terminate_backend({pid}, {round(PATIENCE_S * 1000)})")  # when it has ended

    def _around(self, statement: str, run: Callable[[], Answer]) -> Answer:
        self._meet("before", statement)
        answer = run()
        self._meet("after", statement)
        return answer

    def append(self, row: SegmentRow) -> bool:
        return self._around("append", lambda: PostgresTable.append(self, row))

    def begin(self, row: SegmentRow) -> bool:
        return self._around("begin", lambda: PostgresTable.begin(self, row))

    def barrier(self) -> ShardRow | None:
        return self._around("barrier", lambda: PostgresTable.barrier(self))


def schema_of(url: str) -> str:
    return url.rpartition("%3D")[2]


def tables(postgres: PostgresServer, url: str, kind: str) -> list[str]:
    rows = postgres.sql(
        f"select tablename from pg_tables where schemaname = '{schema_of(url)}' and tablename like 'leveret_{kind}%'"
        " order by length(tablename), tablename"
    )
    return [str(name) for (name,) in rows]


def frames_in(postgres: PostgresServer, url: str) -> list[Any]:
    """Number and epoch of each frame, in the order of the log."""
    names = [f"{schema_of(url)}.{name}" for name in tables(postgres, url, "segment")]
    return [row for name in names for row in postgres.sql(f"select seq, epoch from {name} where start > 0 order by 1")]


@contextmanager
def reading_all(postgres: PostgresServer, url: str) -> Iterator[None]:
    """Somebody reads every table for a while, as pg_dump does."""
    with psycopg.connect(postgres.url()) as backup:
        for name in tables(postgres, url, ""):
            backup.execute(f"select 1 from {schema_of(url)}.{name} limit 1".encode())
        yield


def test_an_owner_who_was_replaced_stops(store_url: str) -> None:
    first = TableWorld(PostgresTable(store_url))
    first.durably(b"kept")
    second = TableWorld(PostgresTable(store_url), claim=Takeover("somebody else"))
    first.publish(b"never confirmed")
    with pytest.raises(Fenced, match=r"somebody else .* has taken over this store"):
        first.commit.flush()
    assert isinstance(first.failures[0], Fenced)
    first.kill()
    assert second.bodies() == {1: {1: b"kept"}}
    second.durably(b"and on")
    second.close()


def test_an_owner_who_has_nothing_to_write_hears_of_it_too(store_url: str) -> None:
    first = TableWorld(PostgresTable(store_url))
    first.store.housekeep()
    second = TableWorld(PostgresTable(store_url))
    with pytest.raises(Fenced):
        first.store.housekeep()
    first.kill()
    second.close()


def test_an_owner_whose_shard_was_moved_away_hears_of_it_too(postgres: PostgresServer, store_url: str) -> None:
    first = TableWorld(PostgresTable(store_url))
    first.durably()
    schema = schema_of(store_url)
    postgres.sql(f"update {schema}.leveret_shard set epoch = epoch + 1; drop table {schema}.leveret_segment_0_1")
    assert not first.store.is_owner()
    with pytest.raises(Fenced):
        first.store.housekeep()
    first.kill()


def test_an_owner_who_waits_for_a_commit_is_told_that_he_is_one(store_url: str) -> None:
    table = PostgresTable(store_url)
    world = TableWorld(table)
    assert table._log.transact(lambda run: world.store.is_owner())
    world.close()


@pytest.mark.parametrize("change", ["checkpoint", "close", "confirm_owner"])
def test_whatever_a_replaced_owner_does_is_refused(store_url: str, change: str) -> None:
    first = TableWorld(PostgresTable(store_url))
    second = TableWorld(PostgresTable(store_url))
    with pytest.raises(Fenced):
        getattr(first.store, change)()
    first.kill()
    second.close()


def test_only_a_higher_epoch_takes_over(store_url: str) -> None:
    TableWorld(PostgresTable(store_url), claim=Takeover("high", 7)).kill()
    for lower in (6, 7):
        with pytest.raises(Fenced, match="high"):
            TableWorld(PostgresTable(store_url), claim=Takeover("low", lower))
    again = TableWorld(PostgresTable(store_url), claim=Takeover("high", 7))
    assert again.store.epoch == 7
    again.close()


def test_shards_do_not_know_of_each_other(store_url: str) -> None:
    worlds = [TableWorld(PostgresTable(store_url, shard)) for shard in (3, 4)]
    for number, world in enumerate(worlds):
        world.durably(b"%d" % number)
    for world in worlds:
        world.close()
    for number, shard in enumerate((3, 4)):
        again = TableWorld(PostgresTable(store_url, shard))
        assert again.bodies() == {1: {1: b"%d" % number}}
        again.close()


def test_two_owners_who_fight_lose_nothing(postgres: PostgresServer, store_url: str) -> None:
    confirmed: list[bytes] = []

    def fight(name: str) -> None:
        for turn in range(5):
            try:
                world = TableWorld(PostgresTable(store_url))
            except Fenced:
                continue
            try:
                for i in range(20):
                    body = f"{name} {turn} {i}".encode()
                    world.durably(body)
                    confirmed.append(body)
            except Fenced:
                pass
            finally:
                world.kill()

    fighters = [threading.Thread(target=fight, args=(name,)) for name in ("left", "right")]
    for fighter in fighters:
        fighter.start()
    for fighter in fighters:
        fighter.join()
    last = TableWorld(PostgresTable(store_url))
    bodies = list(last.bodies().get(1, {}).values())
    assert set(confirmed) <= set(bodies)
    assert len(bodies) == len(set(bodies))
    last.close()
    frames = frames_in(postgres, store_url)
    assert [seq for seq, _ in frames] == list(range(1, len(frames) + 1))
    assert [epoch for _, epoch in frames] == sorted(epoch for _, epoch in frames)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("statement", ["append", "begin"])
def test_a_frame_whose_outcome_is_unknown_is_there_once(
    postgres: PostgresServer, store_url: str, when: str, statement: str
) -> None:
    table = Interrupted(store_url, postgres)
    world = TableWorld(table, segment_bytes=1024)
    confirmed = []
    for i in range(12):
        table.faults = [(when, statement)]
        confirmed.append(world.durably(b"%d" % i, now_ms=i))
    assert world.journal.segment > 1, "several segments were begun"
    world.kill()
    again = TableWorld(PostgresTable(store_url))
    assert sorted(again.state.queues[1]) == confirmed
    again.close()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_barrier_whose_outcome_is_unknown_is_asked_again(postgres: PostgresServer, store_url: str, when: str) -> None:
    table = Interrupted(store_url, postgres)
    world = TableWorld(table)
    world.durably(b"first")
    table.faults = [("after", "append"), (when, "barrier")]
    world.durably(b"second")
    assert table.faults == []
    world.close()


def test_a_backend_that_is_ended_in_the_middle_of_an_append(postgres: PostgresServer, store_url: str) -> None:
    world = TableWorld(PostgresTable(store_url), threaded=True)
    confirmed = [world.durably(b"first")]
    with psycopg.connect(postgres.url()) as other:
        other.execute(f"select 1 from {schema_of(store_url)}.leveret_shard for update".encode())
        seq, told = world.begin(b"second")
        waiting = "from pg_stat_activity where wait_event_type = 'Lock' and query like '%leveret_segment_0_1%'"
        postgres.wait_for(f"select 1 {waiting}")
        postgres.sql(f"select pg_terminate_backend(pid) {waiting}")
        assert world.tried.wait(PATIENCE_S)
        assert not told.is_set()
        other.rollback()
    assert told.wait(PATIENCE_S)
    world.kill()
    again = TableWorld(PostgresTable(store_url))
    assert sorted(again.state.queues[1]) == [*confirmed, seq]
    again.close()


def test_whoever_is_interrupted_while_he_waits_finds_his_frame_there(store_url: str) -> None:
    table = PostgresTable(store_url)
    world = TableWorld(table)

    def interrupt(row: SegmentRow) -> bool:
        del table.append
        assert table.append(row)
        raise KeyboardInterrupt

    table.append = interrupt  # type: ignore[method-assign]
    seq = world.publish(b"there")
    with pytest.raises(KeyboardInterrupt):
        world.commit.flush()
    world.commit.flush()
    world.kill()
    again = TableWorld(PostgresTable(store_url))
    assert list(again.state.queues[1]) == [seq]
    again.close()


def test_a_frame_that_lands_late_is_taken_for_its_own(store_url: str) -> None:
    table = PostgresTable(store_url)
    world = TableWorld(table)
    world.durably(b"first")
    late: list[SegmentRow] = []

    def append(row: SegmentRow) -> bool:
        """The first attempt is on its way; it lands just before the second."""
        late.append(row._replace(data=bytes(row.data)))
        if len(late) == 1:
            raise Unknown("the connection was lost")
        assert PostgresTable.append(table, late[0])
        return PostgresTable.append(table, row)

    table.append = append  # type: ignore[method-assign]
    seq = world.durably(b"late")
    world.kill()
    again = TableWorld(PostgresTable(store_url))
    assert again.state.read(1, seq).body == b"late"
    again.close()


@pytest.mark.parametrize("code", ["53100", "25006"])
def test_no_room_is_a_refusal_and_no_loss(postgres: PostgresServer, store_url: str, code: str) -> None:
    world = TableWorld(PostgresTable(store_url), threaded=True)
    world.durably(b"before")
    schema = schema_of(store_url)
    postgres.sql(
        f"create function {schema}.refuse() returns trigger language plpgsql as"
        f" $$begin raise exception 'no room' using errcode = '{code}'; end$$;"
        f"create trigger refuse before insert on {schema}.leveret_segment_0_1 execute function {schema}.refuse()"
    )
    _, told = world.begin(b"waits")
    assert world.tried.wait(PATIENCE_S)
    assert world.journal.full, "publishes are refused"
    assert world.store.trouble == "no room"
    assert not told.is_set()
    postgres.sql(f"drop trigger refuse on {schema}.leveret_segment_0_1")
    assert told.wait(PATIENCE_S)
    world.close()
    assert not world.journal.full, "publishes are taken again"
    again = TableWorld(PostgresTable(store_url))
    assert list(again.bodies()[1].values()) == [b"before", b"waits"]
    again.close()


def test_what_postgresql_will_never_do_ends_the_journal(postgres: PostgresServer, store_url: str) -> None:
    world = TableWorld(PostgresTable(store_url))
    world.durably()
    postgres.sql(f"drop table {schema_of(store_url)}.leveret_segment_0_1")
    world.publish()
    with pytest.raises(JournalFailed, match="PostgreSQL refuses"):
        world.commit.flush()
    world.kill()


def test_a_database_that_lost_frames_ends_the_journal(postgres: PostgresServer, store_url: str) -> None:
    table = Interrupted(store_url, postgres)
    world = TableWorld(table)
    world.durably()
    world.durably()
    postgres.sql(f"delete from {schema_of(store_url)}.leveret_segment_0_1 where seq = 2")
    table.faults = [("before", "append")]
    world.publish()
    with pytest.raises(JournalFailed, match="ends with frame 1, and 2 was confirmed: PostgreSQL has lost"):
        world.commit.flush()
    world.kill()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("update leveret_segment_0_1 set data = overlay(data placing 'x' from 60) where seq = 2", "no whole frame 2"),
        ("delete from leveret_segment_0_1 where seq = 2", "no whole frame 2"),
        ("delete from leveret_segment_0_1 where start = 0", "header is missing"),
    ],
)
def test_damage_is_found(postgres: PostgresServer, store_url: str, change: str, what: str) -> None:
    world = TableWorld(PostgresTable(store_url))
    for _ in range(3):
        world.durably()
    world.kill()
    postgres.sql(f"set search_path = {schema_of(store_url)}; {change}")
    with pytest.raises(DamagedJournal, match=what):
        TableWorld(PostgresTable(store_url))


def test_a_checkpoint_spares_the_replay_and_a_damaged_one_is_left_out(postgres: PostgresServer, store_url: str) -> None:
    world = TableWorld(PostgresTable(store_url))
    world.durably(b"x")
    facts = world.facts()
    world.close()
    again = TableWorld(PostgresTable(store_url))
    assert (again.recovered.from_checkpoint, again.recovered.frames) == (True, 0)
    assert again.facts() == facts
    again.store.checkpoint()
    again.kill()
    (name,) = tables(postgres, store_url, "checkpoint")
    postgres.sql(f"update {schema_of(store_url)}.{name} set data = overlay(data placing 'x' from 3) where part = 0")
    third = TableWorld(PostgresTable(store_url))
    assert (third.recovered.from_checkpoint, third.recovered.checkpoints_ignored) == (False, 1)
    assert third.facts() == facts
    third.close()


def test_dead_segments_are_dropped_and_archived_first(postgres: PostgresServer, store_url: str, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    options: dict[str, Any] = {"segment_bytes": 1024, "archive_dir": str(archive)}
    world = TableWorld(PostgresTable(store_url), names=lambda numbers: {1: "orders"}, **options)
    kept = world.durably(b"kept")
    for i in range(40):
        world.state.settle(1, world.durably(b"%d" % i))
    world.commit.flush()
    before = tables(postgres, store_url, "segment")
    first = world.store._reader.whole(1)
    while world.store.compact():
        continue
    after = tables(postgres, store_url, "segment")
    assert len(after) < len(before)
    assert set(world.store.sizes()) == {int(name.rpartition("_")[2]) for name in after}
    assert (archive / segment_name(1)).read_bytes() == first
    assert "orders" in (archive / segment_name(1)).with_suffix(".names.json").read_text()
    world.kill()
    again = TableWorld(PostgresTable(store_url))
    assert again.bodies() == {1: {kept: b"kept"}}
    again.close()


def test_nobody_waits_while_segments_are_measured(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = TableWorld(PostgresTable(store_url), segment_bytes=1024)
    for i in range(20):
        first.durably(b"%d" % i)
    first.close()
    table = PostgresTable(store_url)
    world = TableWorld(table)
    assert list(world.store.sizes()) == [world.journal.segment], "the others are not asked for by whoever looks"
    lock: Any = world.store.lock
    locked: list[bool] = []

    def end(segment: int) -> int:
        locked.append(lock.locked())
        return PostgresTable.end(table, segment)

    monkeypatch.setattr(table, "end", end)
    world.store.compact()
    assert locked == [False] * (len(world.store.sizes()) - 1)
    assert sum(world.store.sizes().values()) > world.journal.offset
    world.close()


def test_what_a_dying_process_did_not_drop_is_swept(postgres: PostgresServer, store_url: str) -> None:
    TableWorld(PostgresTable(store_url)).close()
    (counting,) = tables(postgres, store_url, "checkpoint")
    schema = schema_of(store_url)
    for name in ("leveret_checkpoint_0_1_99", "leveret_checkpoint_0_99_1", "leveret_segment_0_0"):
        postgres.sql(f"create table {schema}.{name} (part int, start bigint, data bytea)")
    world = TableWorld(PostgresTable(store_url))
    world.store.housekeep()
    # One of an epoch that is yet to come belongs to whoever has taken over since.
    assert tables(postgres, store_url, "checkpoint") == sorted([counting, "leveret_checkpoint_0_99_1"])
    assert tables(postgres, store_url, "segment") == ["leveret_segment_0_1"]
    world.kill()


def test_a_backup_keeps_nobody_waiting(postgres: PostgresServer, store_url: str) -> None:
    world = TableWorld(PostgresTable(store_url), segment_bytes=1024)
    for i in range(20):
        world.state.settle(1, world.durably(b"%d" % i))
    world.store.checkpoint()
    kept = world.durably(b"kept")
    with reading_all(postgres, store_url):
        while world.store.compact():
            continue
        assert world.store.checkpoint()
        world.close()
        again = TableWorld(PostgresTable(store_url))
        assert again.bodies() == {1: {kept: b"kept"}}
        assert len(tables(postgres, store_url, "segment")) > len(again.store.sizes()), "nothing can be dropped yet"
    again.store.housekeep()
    again.close()
    assert len(tables(postgres, store_url, "segment")) == len(again.store.sizes())
    assert len(tables(postgres, store_url, "checkpoint")) == 1


def test_records_are_read_back_across_rows_and_out_of_large_ones(store_url: str) -> None:
    world = TableWorld(PostgresTable(store_url), cache_bytes=1)
    small = [world.durably(b"%d" % i) for i in range(50)]
    large = [world.publish(bytes([i]) * 100_000) for i in range(8)]
    world.commit.flush()
    assert [world.state.read(1, seq).body for seq in small] == [b"%d" % i for i in range(50)]
    expected = [bytes([i]) * 100_000 for i in range(8)]
    assert [world.state.read(1, seq).body for seq in reversed(large)] == expected[::-1]
    world.close()


def test_a_segment_that_is_gone_is_damage_to_whoever_reads_it(postgres: PostgresServer, store_url: str) -> None:
    world = TableWorld(PostgresTable(store_url), cache_bytes=1)
    seq = world.durably(b"far away")
    postgres.sql(f"alter table {schema_of(store_url)}.leveret_segment_0_1 rename to gone")
    with pytest.raises(DamagedJournal, match="does not exist"):
        world.state.read(1, seq)
    world.kill()


def test_a_body_that_no_row_can_hold(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_blobs, "BODY_BYTES_MAX", 10)
    blobs = postgres_blobs.PostgresBlobs(store_url, 0)
    blobs.put("20260101-a", b"x" * 10)
    with pytest.raises(MessageTooLarge, match="a body of 11 bytes is over 10"):
        blobs.put("20260101-b", b"x" * 11)
    assert (blobs.names(), blobs.get("20260101-a")) == (["20260101-a"], b"x" * 10)
    with pytest.raises(FileNotFoundError):
        blobs.get("20260101-b")


def test_what_cannot_be_asked_of_it(store_url: str) -> None:
    with pytest.raises(InvalidArgument, match="always synced, not interval"):
        TableWorld(PostgresTable(store_url), sync="interval")
    with pytest.raises(InvalidArgument, match="URL of the store cannot be read"):
        PostgresTable("postgresql://host/db?nonsense=1")
    with pytest.raises(ValueError, match="shards are 0 to"):
        PostgresTable(store_url, 1 << 20)


def test_commits_wait_for_the_disk_whatever_the_role_says(postgres: PostgresServer, store_url: str) -> None:
    table = PostgresTable(store_url.replace("options=", "options=-csynchronous_commit%3Doff%20"))
    world = TableWorld(table)
    assert table._log.run("select current_setting('synchronous_commit')", {})[1] == [("on",)]
    world.close()
