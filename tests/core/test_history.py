"""What only history needs: it is in the log, costs no sync, and a recovery passes over it."""

from dataclasses import replace
from pathlib import Path
from threading import Lock

import pytest

from leveret.clock import ManualClock
from leveret.core.broker import HOUR_MS, Broker
from leveret.core.errors import DiskFull, QueueFull
from leveret.core.properties import Properties
from leveret.core.tally import COUNTERS
from leveret.runtime.durability import EVENT_COMMIT_MS, CommitScheduler
from leveret.storage.disk import Disk
from leveret.storage.journal.columns import KINDS, EventColumns
from leveret.storage.journal.files.recovery import verify
from leveret.storage.journal.files.segments import parse_header, segment_name, segment_numbers
from leveret.storage.journal.files.store import FileStore
from leveret.storage.journal.journal import FileJournal
from leveret.storage.segments import HEADER_BYTES
from tests.core import world as worlds
from tests.core.world import START_MS, World

ALL = replace(worlds.SMALL_SEGMENTS, history_events="all", history_age_ms=1 << 40, history_bytes=1 << 30)
MORE_THAN_FITS = 300_000
Row = tuple[str, int, int]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(worlds, "SMALL_SEGMENTS", ALL)
    made = World(tmp_path)
    made.broker.tick(START_MS)
    return made


def told(path: Path) -> list[Row]:
    """Kind, queue and number of what the segments tell."""
    disk, rows = Disk(str(path)), []
    for number in segment_numbers(disk):
        data = disk.read_all(segment_name(number))
        header = parse_header(data[:HEADER_BYTES], number)
        assert header is not None
        columns = EventColumns(data, segment_name(number), HEADER_BYTES, len(data), header.salt)
        while columns.fill(1 << 16):
            taken = columns.take()
            queues, seqs = memoryview(taken["queue"]).cast("i"), memoryview(taken["seq"]).cast("q")
            rows += [(KINDS[kind], queues[at], seqs[at]) for at, kind in enumerate(taken["kind"])]
    return rows


def restart(world: World) -> None:
    """Write everything, and come back."""
    world.disk().journal.seal_events()
    world.restart()


def of(rows: list[Row], *kinds: str) -> list[Row]:
    return [row for row in rows if row[0] in kinds]


def test_the_life_of_a_transient_message_is_told(world: World, tmp_path: Path) -> None:
    queue = world.queue()
    world.commit()
    world.send(queue, persistent=False)
    (held,) = queue.take(1)
    queue.nack(held, held.lease, 0)
    (held,) = queue.take(1)
    queue.ack(held, held.lease)
    world.commit()
    lived = ["published", "delivered", "returned", "delivered", "settled"]
    assert [kind for kind, *_ in told(tmp_path) if kind in lived] == []
    assert world.disk().journal.seal_events()
    world.commit()
    assert [kind for kind, *_ in told(tmp_path) if kind in lived] == lived
    world.close()


def test_a_purge_tells_of_each_message_that_was_in_memory_only(world: World, tmp_path: Path) -> None:
    queue = world.queue()
    world.send_all(queue, "abc", persistent=False)
    world.broker.delete_queue(queue)
    world.commit()
    assert of(told(tmp_path), "settled") == [("settled", queue.id, seq) for seq in (1, 2, 3)]
    world.close()


def test_events_alone_are_written_late_and_not_synced(tmp_path: Path) -> None:
    clock, lock = ManualClock(START_MS), Lock()
    options = replace(ALL, sync="always")
    journal = FileJournal(options, clock.now_ms)
    broker = Broker(journal)
    store = FileStore(Disk(str(tmp_path)), journal, broker.restorer, lock, clock.now_ms, options, threaded=False)
    commits = CommitScheduler(lock, clock)
    commits.attach(store)
    queue = broker.declare_queue("/", "q")
    store.commit.flush()
    syncs, durable = store.syncs, journal.durable
    broker.send(queue, b"m", 0, persistent=False)
    assert commits.plan() == START_MS + EVENT_COMMIT_MS
    assert not commits.commit_if_due()
    assert (journal.durable, commits.commit()) == (durable, durable)
    clock.advance(EVENT_COMMIT_MS)
    assert commits.commit_if_due()
    assert (journal.durable, journal.events_bytes, store.syncs) == (durable + 1, 0, syncs)
    store.abandon()


def test_a_recovery_takes_only_the_numbers(world: World, tmp_path: Path) -> None:
    world.send(world.queue("fleeting", durable=False))
    number = world.send(world.queue("lasting"), persistent=False)
    restart(world)
    assert [queue.name for queue in world.broker.queues.values()] == ["lasting"]
    assert world.again("lasting").depth == 0
    assert world.send(world.queue("fleeting", durable=False)) > number
    assert len({queue for kind, queue, _ in told(tmp_path) if kind == "published"}) == 2
    restart(world)
    published = [seq for kind, _, seq in told(tmp_path) if kind == "published"]
    assert len(set(published)) == len(published) == 3
    assert len({queue for kind, queue, _ in told(tmp_path) if kind == "published"}) == 3
    assert verify(Disk(str(tmp_path))) == []
    world.close()


def test_a_start_tells_which_transient_messages_are_gone(world: World, tmp_path: Path) -> None:
    world.send_all(world.queue(), "ab", persistent=False)
    world.disk().journal.seal_events()
    restart(world)
    world.send(world.again(), persistent=False)
    world.broker.count()
    restart(world)
    starts = [seq for kind, _, seq in told(tmp_path) if kind == "started"]
    assert starts[0] == 1
    assert starts[1] > 2
    world.close()


def test_more_events_than_fit_are_dropped_and_counted(world: World, tmp_path: Path) -> None:
    queue, journal = world.queue(), world.disk().journal
    for number in range(MORE_THAN_FITS):  # each has an entry of its own: they are of different sizes
        world.broker.engine.refused(0, number, None, queue.id)
    dropped = journal.events.dropped
    assert 0 < dropped < MORE_THAN_FITS
    assert not journal.behind
    world.commit()
    world.send(queue, persistent=False)
    restart(world)
    assert of(told(tmp_path), "lost") == [("lost", 0, dropped)]
    world.close()


def test_nothing_of_it_is_written_when_history_is_of_what_is_durable(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.send(world.queue(), persistent=False)
    world.send(world.queue("fleeting", durable=False))
    world.broker.count()
    restart(world)
    assert {kind for kind, *_ in told(tmp_path)} == {"defined"}
    world.close()


def test_refused_publishes_are_told(world: World, tmp_path: Path) -> None:
    queue = world.queue(max_length=1, overflow="reject-publish")
    world.send(queue)
    for _ in range(2):
        with pytest.raises(QueueFull):
            world.send(queue)
        world.broker.publish_through("/", "amq.direct", "nowhere", Properties(), b"m")
    restart(world)
    refused = of(told(tmp_path), "refused")
    assert sorted(row[1] for row in refused) == [0, 0, queue.id, queue.id]
    world.close()


def test_a_publish_for_which_there_is_no_room_is_told(world: World, tmp_path: Path) -> None:
    queue = world.queue()
    world.disk().journal.refuse_publishes(True)
    with pytest.raises(DiskFull):
        world.send(queue)
    restart(world)
    assert of(told(tmp_path), "refused") == [("refused", queue.id, -1)]
    world.close()


def test_what_queues_have_counted_is_told_every_hour_and_when_they_go(world: World, tmp_path: Path) -> None:
    queue, other = world.queue(), world.queue("other")
    world.send_all(queue, "abc", persistent=False)
    world.broker.tick(START_MS + HOUR_MS)
    world.send(queue)
    world.send(other)
    world.broker.delete_queue(other)
    world.broker.count()
    world.broker.count()
    restart(world)
    counted = of(told(tmp_path), "counted")
    assert counted == [
        ("counted", queue.id, 3),
        ("counted", 0, 0),
        ("counted", other.id, 1),
        ("counted", queue.id, 1),
        ("counted", 0, 0),
    ]
    assert COUNTERS[0] == "published"
    world.close()
