"""What every journal does, whatever it is made of. Add a journal by adding a maker."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leveret.core.ports import Journal
from leveret.storage.encryption import MasterKeys
from leveret.storage.journal.postgres.statements import PostgresTable
from tests.storage.journal.plain_state import PlainState
from tests.storage.journal.table_world import TableWorld
from tests.storage.journal.world import HEADER, ROUTE, Life, World

DIGEST = bytes(range(16))


class Subject:
    """A state on a journal, which can be closed and opened again where the journal is durable."""

    def __init__(self, reopen: Callable[[], Life] | None) -> None:
        self._reopen = reopen
        self.durable = reopen is not None
        self.world = reopen() if reopen else None
        self.state = self.world.state if self.world else PlainState(Journal())

    def reopen(self) -> None:
        """Close and open; nothing happens to a journal that is not durable."""
        if self._reopen and self.world:
            self.world.close()
            self.world = self._reopen()
            self.state = self.world.state

    def publish(self, body: bytes, queues: list[int], **facts: int) -> int:
        return self.state.publish(queues, ROUTE, HEADER + body, len(HEADER), **facts)

    def close(self) -> None:
        if self.world:
            self.world.close()


JOURNALS = ("memory", "files", "uncached files", "encrypted files", "tables", "uncached tables", "encrypted tables")


@pytest.fixture(params=JOURNALS)
def subject(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Subject]:
    url = request.getfixturevalue("store_url") if "tables" in request.param else ""
    makers: dict[str, Callable[[], Life] | None] = {
        "memory": None,
        "files": lambda: World(tmp_path),
        "uncached files": lambda: World(tmp_path, cache_bytes=1, segment_bytes=1024),
        "encrypted files": lambda: World(tmp_path, cache_bytes=1, keys=MasterKeys(b"k" * 32)),
        "tables": lambda: TableWorld(PostgresTable(url)),
        "uncached tables": lambda: TableWorld(PostgresTable(url), cache_bytes=1, segment_bytes=1024),
        "encrypted tables": lambda: TableWorld(PostgresTable(url), cache_bytes=1, keys=MasterKeys(b"k" * 32)),
    }
    subject = Subject(makers[request.param])
    yield subject
    subject.close()


def test_a_message_is_read_as_it_was_published(subject: Subject) -> None:
    seq = subject.publish(b"hello", [7], priority=9, expiry_ms=5000, now_ms=1000)
    subject.reopen()
    message = subject.state.read(7, seq)
    assert (message.header, message.body) == (HEADER, b"hello")
    assert (message.exchange, message.routing_key) == ("events", "made")
    assert (message.seq, message.priority, message.expiry_ms, message.enqueued_ms) == (seq, 9, 5000, 1000)


def test_an_empty_body_and_an_empty_route(subject: Subject) -> None:
    seq = subject.state.publish([1], b"\0\0", b"", 0)
    subject.reopen()
    assert (subject.state.read(1, seq).route, subject.state.read(1, seq).content) == (b"\0\0", b"")


@pytest.mark.parametrize("queues", [1, 2, 8, 9, 40])
def test_a_fan_out_is_one_message_in_many_queues(subject: Subject, queues: int) -> None:
    seq = subject.publish(b"all", list(range(1, queues + 1)), due_ms=77, group=5)
    subject.state.settle(1, seq)
    subject.reopen()
    assert {queue for queue, messages in subject.state.queues.items() if messages} == set(range(2, queues + 1))
    for queue in range(2, queues + 1):
        assert subject.state.read(queue, seq).body == b"all"
        held = subject.state.queues[queue][seq]
        assert (held.due_ms, held.group) == (77, 5)


def test_a_settled_message_does_not_come_back(subject: Subject) -> None:
    numbers = [subject.publish(b"%d" % i, [1]) for i in range(10)]
    for seq in numbers[2:8]:
        subject.state.settle(1, seq, how=1, at_ms=5)
    subject.reopen()
    assert sorted(subject.state.queues[1]) == numbers[:2] + numbers[8:]


def test_settling_interleaved_with_publishing(subject: Subject) -> None:
    kept = []
    for i in range(20):
        seq = subject.publish(b"%d" % i, [1])
        if i % 3:
            subject.state.settle(1, seq)
        else:
            kept.append(seq)
    subject.reopen()
    assert sorted(subject.state.queues[1]) == kept


def test_deliveries_are_counted(subject: Subject) -> None:
    first, second, third = (subject.publish(b"x", [1]) for _ in range(3))
    for seq in (first, second, third):
        subject.state.deliver(1, seq, at_ms=10, consumer=3)
    subject.state.deliver(1, second, at_ms=11, consumer=3)
    subject.reopen()
    assert [subject.state.queues[1][seq].deliveries for seq in (first, second, third)] == [1, 2, 1]


def test_a_message_given_back_has_its_time_and_count(subject: Subject) -> None:
    seq = subject.publish(b"x", [1])
    subject.state.deliver(1, seq)
    subject.state.give_back(1, seq, due_ms=123_456, held_ms=9)
    subject.reopen()
    held = subject.state.queues[1][seq]
    assert (held.deliveries, held.due_ms) == (1, 123_456)


def test_a_purge_keeps_what_is_leased_and_what_comes_later(subject: Subject) -> None:
    numbers = [subject.publish(b"x", [1, 2]) for _ in range(5)]
    subject.state.purge(1, [numbers[1]])
    later = subject.publish(b"y", [1])
    subject.reopen()
    assert sorted(subject.state.queues[1]) == [numbers[1], later]
    assert sorted(subject.state.queues[2]) == numbers
    assert [subject.state.read(2, seq).body for seq in numbers] == [b"x"] * 5


def test_definitions_and_keys(subject: Subject) -> None:
    subject.state.define(3, b"a queue")
    subject.state.define(255, b"")
    seq = subject.publish(b"x", [1])
    subject.state.deduplicate(1, DIGEST, seq, 999)
    subject.reopen()
    assert set(subject.state.definitions) == {(3, b"a queue"), (255, b"")}
    assert subject.state.dedup[1, DIGEST][:2] == (seq, 999)


def test_numbers_go_on_after_a_restart(subject: Subject) -> None:
    first = subject.publish(b"x", [1])
    subject.state.settle(1, first)
    subject.reopen()
    assert subject.publish(b"y", [1]) == first + 1


def test_a_transient_message_is_held_until_a_restart(subject: Subject) -> None:
    seq = subject.publish(b"gone with the process", [1], flags=0)
    assert subject.state.read(1, seq).body == b"gone with the process"
    subject.reopen()
    assert bool(subject.state.queues.get(1)) is not subject.durable


def test_what_has_left_every_queue_takes_no_memory(subject: Subject) -> None:
    seq = subject.publish(b"x", [1, 2])
    transient = subject.publish(b"x", [1], flags=0)
    for queue, number in ((1, seq), (2, seq), (1, transient)):
        subject.state.settle(queue, number)
    assert subject.state.journal.bodies == {}
