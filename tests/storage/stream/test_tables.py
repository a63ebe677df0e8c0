"""Streams in tables: what is stored with which frame, what is in memory, and what is read back."""

import pytest

from leveret.core.broker import Broker
from leveret.core.errors import DamagedJournal, StoreUnreachable
from leveret.core.ports import Journal
from leveret.storage.journal.postgres.reader import Questions
from leveret.storage.journal.postgres.table import SegmentAppend
from leveret.storage.options import StreamOptions
from leveret.storage.stream import postgres
from leveret.storage.stream.log import PartitionLog
from leveret.storage.stream.postgres import TableStreamDirectories
from leveret.storage.stream.recorder import StreamRecorder
from leveret.storage.stream.store import StreamStore
from tests.storage.stream.tables import MemoryStreams, TablesWorld
from tests.storage.stream.world import drained, numbered


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> TablesWorld:
    """A stream in tables, of which little is in memory."""
    monkeypatch.setattr(postgres, "PAGE_BYTES", 256)
    monkeypatch.setattr(postgres, "PAGES_MAX", 4)
    return TablesWorld(segment_bytes=1 << 12)


def test_what_no_frame_has_stored_is_gone_with_its_process(world: TablesWorld) -> None:
    world.fill(20)
    world.append(b"written")
    world.log.write(world.now_ms)
    assert world.bodies() == numbered(range(20))
    world.kill()
    assert world.bodies() == numbered(range(20))
    assert world.append(b"in its place") == 20


def test_a_frame_that_is_sent_again_has_the_same_changes(world: TablesWorld) -> None:
    world.append(b"one")
    world.log.write(0)
    first = world.directories.changes.take()
    world.append(b"two")
    world.log.write(0)
    assert world.directories.changes.take() == first
    world.directories.changes.stored()
    assert not world.directories.settled
    (second,) = world.directories.changes.take()
    assert isinstance(second, SegmentAppend)
    assert b"two" in bytes(second.data)


def test_a_frame_without_changes_that_is_sent_again_has_none(world: TablesWorld) -> None:
    assert world.directories.changes.take() == []
    world.append(b"later")
    world.log.write(0)
    assert world.directories.changes.take() == []
    world.directories.changes.stored()
    assert world.directories.changes.take()


def test_records_after_a_frame_that_was_under_way_are_read_with_the_next() -> None:
    core = Broker(Journal())
    directories = TableStreamDirectories(MemoryStreams(), Questions())
    streams = StreamStore(core, directories, StreamOptions())
    queue = core.declare_queue("/", "clicks", {"x-queue-type": "stream"})
    recorder = queue.recorder
    assert isinstance(recorder, StreamRecorder)

    def publish() -> None:
        core.publish([queue], b"\0\6clicks", b"body", 0)

    publish()
    streams.take()
    streams.commit(1)
    directories.changes.take()
    # Whoever wrote was interrupted here, and the frame is sent again after more was published.
    publish()
    streams.take()
    streams.commit(1)
    directories.changes.stored()
    streams.committed()
    assert (recorder.latest(0), streams.dirty) == (0, True)
    streams.take()
    streams.commit(1)
    directories.changes.take()
    directories.changes.stored()
    streams.committed()
    assert (recorder.latest(0), streams.dirty) == (2, False)
    streams.abandon()


def test_the_end_is_read_from_memory(world: TablesWorld) -> None:
    world.fill(100)
    reader = world.log.reader(0)
    while not reader.at_end:
        reader.read()
    before = world.table.reads
    world.append(b"live")
    world.commit()
    assert reader.missing() is None
    assert [record.body for record in drained(reader)] == [b"live"]
    assert world.table.reads == before


def test_memory_is_freed_and_old_records_come_from_the_table(world: TablesWorld) -> None:
    world.fill(100)
    for _ in range(2):
        world.log.forget_shared()
    assert all(not file.tail for file in world.directories._disks[1][0].files)
    assert world.bodies() == numbered(range(100))
    assert world.table.reads > 10
    world.append(b"body 100")
    world.commit()
    assert world.bodies(95) == numbered(range(95, 101))


def test_the_tail_is_short_however_much_is_appended(world: TablesWorld) -> None:
    world.fill(100, commit_each=100)
    assert all(len(file.tail) < 3 * postgres.PAGE_BYTES for file in world.directories._disks[1][0].files)
    assert world.bodies() == numbered(range(100))


def test_a_reader_who_must_not_wait_is_told_to_fetch(world: TablesWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "PAGES_MAX", 100)
    world.fill(30)
    world.restart()
    world.table.reads = 0
    reader = world.log.reader(0)
    job = reader.missing()
    assert job is not None
    assert world.table.reads == 0
    job()
    fetched = world.table.reads
    assert fetched
    assert [record.body for record in drained(reader)] == numbered(range(30))
    assert world.table.reads == fetched


def test_bytes_of_a_removed_segment_stay_until_its_readers_are_done(world: TablesWorld) -> None:
    world.fill(100)
    reader = world.log.reader(0)
    reader.read()
    count = len(world.table.bytes)
    world.retain(world.now_ms, max_bytes=0)
    assert (len(world.table.indexes), len(world.table.bytes)) == (1, 2)
    assert count > 2
    reader.close()
    world.directories.tidy()
    assert len(world.table.bytes) == 1


def test_nobody_waits_for_a_database_that_is_known_to_be_away(world: TablesWorld) -> None:
    world.fill(20)
    questions = Questions()
    questions.away = "it was shut down"
    directories = TableStreamDirectories(world.table, questions)
    with pytest.raises(StoreUnreachable, match="does not answer: it was shut down; try again later"):
        PartitionLog(directories.partition(1, 0), world.options)
    assert world.table.reads == 0


def test_rows_that_are_missing_are_damage(world: TablesWorld) -> None:
    world.fill(20)
    world.kill()
    (key,) = world.table.bytes
    world.table.bytes[key] = world.table.bytes[key][:500]
    with pytest.raises(DamagedJournal, match="partition 0 of stream 1 in PostgreSQL is damaged at offset 256"):
        world.bodies()


def test_a_block_that_is_not_whole_is_damage_since_tables_do_not_tear(world: TablesWorld) -> None:
    world.fill(20)
    (key,) = world.table.bytes
    world.table.bytes[key] = world.table.bytes[key][:-1]
    with pytest.raises(DamagedJournal, match="is damaged at offset"):
        world.kill()


def test_a_block_that_was_interrupted_is_staged_once(world: TablesWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.fill(3)
    write = world.disk.write

    def interrupt(*arguments: object) -> int:
        monkeypatch.undo()
        write(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(world.disk, "write", interrupt)
    world.append(b"body 3")
    with pytest.raises(KeyboardInterrupt):
        world.log.write(0)
    world.commit()
    assert world.bodies() == numbered(range(4))
    world.kill()
    assert world.bodies() == numbered(range(4))
