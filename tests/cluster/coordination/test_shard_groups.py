"""Which database has a shard, and shards on their way from one to another: whoever dies where, there is one truth."""

import secrets
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

import leveret
from leveret.cluster.shards.groups import URL_CHARACTERS_MAX, ShardGroup, ShardGroups, ShardLocation, check_store
from leveret.core.errors import Fenced, InvalidArgument, JournalFailed, LeveretError, NotFound, PreconditionFailed
from leveret.embedded.broker import Broker, open_shard
from leveret.runtime import storage
from leveret.storage.journal.postgres.shard_copy import ShardCopy, sweep
from leveret.storage.journal.postgres.store import Takeover
from tests.postgres_server import PostgresServer
from tests.waiting import wait_until

SHARD = 3
LARGE = b"L" * 400_000


class World(NamedTuple):
    """A cluster with two databases."""

    groups: ShardGroups
    urls: list[str]

    def open(self, epoch: int) -> Broker:
        """The shard, taken over where it is."""
        shard_id = self.groups.claim(SHARD, epoch)
        assert shard_id is not None
        return open_shard(shard_id.group.url, SHARD, Takeover("a", epoch), on_failure="raise", segment_bytes=100_000)

    def steps(self, epoch: int, source: int, target: int) -> list[Callable[[], object]]:
        """What a mover does, one after the other."""
        copy = ShardCopy(self.urls[source], self.urls[target], SHARD, "a", epoch)

        def switch() -> None:
            copy.close()
            if not self.groups.switch(SHARD, epoch, target):
                raise Fenced("another owner")

        return [copy.begin, copy.copy_ahead, copy.finish, switch]

    def move(self, epoch: int, source: int, target: int) -> None:
        """All of it, of a shard that nobody serves."""
        for step in self.steps(epoch, source, target):
            step()


@pytest.fixture
def world(postgres: PostgresServer) -> Iterator[World]:
    urls = [postgres.new_url(f"group_{secrets.token_hex(8)}") for _ in range(2)]
    groups = ShardGroups(urls[0], "test")
    groups.add(urls[1])
    yield World(groups, urls)
    groups.close()


def send(broker: Broker, first: int, count: int) -> None:
    """Messages with numbers, of which some fill a segment."""
    queue = broker.queue("q", dead_letter="dead")
    for number in range(first, first + count):
        queue.send(b"%06d" % number + b"x" * 5_000)


def numbers(broker: Broker) -> list[int]:
    """The messages that are there, without taking them."""
    return [int(bytes(message.body)[:6]) for message in broker.queue("q").browse(limit=1_000)]


# Where a shard is


def test_a_shard_is_where_its_row_says_for_whoever_claims_it(world: World) -> None:
    first, second = (ShardGroup(number, url) for number, url in enumerate(world.urls))
    groups = world.groups
    assert groups.all() == [first, second]
    assert groups.claim(SHARD, 10) == ShardLocation(first, None)
    assert groups.claim(SHARD, 10) == ShardLocation(first, None)  # an answer may have been lost
    assert groups.claim(SHARD, 9) is None
    assert groups.switch(SHARD, 10, 1)
    assert groups.claim(SHARD, 12) == ShardLocation(second, first)


def test_a_move_whose_owner_was_replaced_changes_nothing(world: World) -> None:
    world.groups.claim(SHARD, 10)
    assert world.groups.claim(SHARD, 12) is not None
    assert not world.groups.switch(SHARD, 10, 1)
    assert world.groups.claim(SHARD, 13) == ShardLocation(ShardGroup(0, world.urls[0]), None)


def test_a_group_with_nothing_in_it_can_be_retired(world: World, postgres: PostgresServer) -> None:
    groups, third = world.groups, postgres.new_url(f"group_{secrets.token_hex(8)}")
    groups.claim(SHARD, 10)
    assert groups.add(third).number == 2
    with pytest.raises(PreconditionFailed, match="group 0 has the definitions"):
        groups.retire(0, SHARD + 1)
    assert groups.switch(SHARD, 10, 1)
    with pytest.raises(PreconditionFailed, match=f"tables of shards {SHARD}:"):
        groups.retire(1, SHARD + 1)
    groups.retire(2, SHARD + 1)
    assert [group.number for group in groups.all()] == [0, 1]
    with pytest.raises(NotFound, match="no group 2"):
        groups.retire(2, SHARD + 1)
    groups.swept(SHARD, 10)
    assert not groups.switch(SHARD, 10, 2)  # by a mover who has not heard of it
    with pytest.raises(PreconditionFailed, match="group 2 of the cluster"):
        groups.add(third)
    assert groups.add(postgres.new_url(f"group_{secrets.token_hex(8)}")).number == 3


def test_no_move_begins_before_the_one_before_it_is_swept(world: World) -> None:
    groups = world.groups
    groups.claim(SHARD, 10)
    assert groups.switch(SHARD, 10, 1)
    assert not groups.switch(SHARD, 10, 0)
    groups.swept(SHARD, 10)
    assert groups.switch(SHARD, 10, 0)
    assert groups.claim(SHARD + 1, 1) == ShardLocation(ShardGroup(0, world.urls[0]), None)


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("postgresql://leveret:hush@db/leveret", "PGPASSFILE"),
        ("postgresql://leveret@db/leveret?password=hush", "PGPASSFILE"),
        ("mysql://leveret:hush@db/leveret", "postgresql://user@host"),
        ("postgresql://db/" + "x" * URL_CHARACTERS_MAX, "postgresql://user@host"),
        ("postgresql://db/leveret?hots=a", "cannot be read"),
    ],
)
def test_a_group_is_a_url_without_a_password(world: World, url: str, advice: str) -> None:
    with pytest.raises(InvalidArgument, match=advice) as raised:
        world.groups.add(url)
    assert "hush" not in str(raised.value)


def test_a_database_that_somebody_uses_is_not_a_new_group(world: World, postgres: PostgresServer) -> None:
    assert world.groups.add(world.urls[1]).number == 1  # once more
    with pytest.raises(PreconditionFailed, match="group 0 of the cluster 'test' already"):
        world.groups.add(world.urls[0])
    with pytest.raises(PreconditionFailed, match="group 1 of the cluster 'test' already"):
        world.groups.add(world.urls[1] + "&application_name=other")
    used = postgres.new_url(f"used_{secrets.token_hex(8)}")
    leveret.open(used).close()
    with pytest.raises(PreconditionFailed, match="has the messages of a broker"):
        world.groups.add(used)
    with pytest.raises(LeveretError, match="cannot be reached"):
        world.groups.add("postgresql:///x?host=/nowhere")


# Shards on their way


def test_a_shard_has_all_that_it_had_and_goes_on(world: World) -> None:
    copying = world.steps(10, 0, 1)
    with world.open(10) as broker:
        send(broker, 0, 50)
        broker.queue("large").send(LARGE)
        for step in copying[:2]:
            step()  # while it is served
        send(broker, 50, 50)
        broker.queue("large").send(LARGE[1:])
    for step in copying[2:]:
        step()
    with world.open(12) as broker:
        assert numbers(broker) == list(range(100))
        sweep(world.urls[0], SHARD, "a", 12)
        world.groups.swept(SHARD, 12)
        send(broker, 100, 1)
    with pytest.raises(JournalFailed, match="does not exist"):
        open_shard(world.urls[0], SHARD, Takeover("a", 13), on_failure="raise")  # not taken for an empty one
    world.groups.claim(SHARD, 14)
    open_shard(world.urls[1], SHARD, Takeover("a", 14), on_failure="raise").close()
    world.move(14, 1, 0)  # and back
    with world.open(16) as broker:
        assert numbers(broker) == list(range(101))
        large = broker.queue("large")
        assert [message.body for message in large.receive(2)] == [LARGE, LARGE[1:]]


def test_what_was_settled_during_a_move_is_not_copied(world: World) -> None:
    copying = world.steps(10, 0, 1)
    with world.open(10) as broker:
        send(broker, 0, 100)
        copying[0]()
        copying[1]()
        for message in broker.queue("q").receive(99):
            message.ack()
        broker.flush()
        store = broker.runtime.store
        assert store is not None
        store.checkpoint()
        wait_until(lambda: store.meta.oldest > 1)
    for step in copying[2:]:
        step()
    with world.open(12) as broker:
        assert numbers(broker) == [99]


@pytest.mark.parametrize("ahead", [True, False])
def test_streams_go_with_their_shard(
    world: World, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, ahead: bool
) -> None:
    monkeypatch.setattr(storage, "TABLE_SEGMENT_BYTES_MIN", 1 << 16)
    bodies = [secrets.token_bytes(5_000) for _ in range(100)]
    copying = world.steps(10, 0, 1)
    with world.open(10) as broker:
        kept = broker.stream("kept", partitions=2)
        short = broker.stream("short", segment_bytes=1 << 16, max_bytes=1 << 17)
        gone = broker.stream("gone")
        for stream in (kept, short, gone):
            for body in bodies[:50]:
                stream.send(body)
        copying[0]()
        if ahead:
            copying[1]()
        for body in bodies[50:]:
            kept.send(body)
            short.send(body)
        gone.delete()
        broker.stream("late").send("late")
        broker.runtime.streams.retain(0)
        broker.flush()  # what is too old has gone
        before = {stream.name: records(stream) for stream in broker.streams()}
    for step in copying[2:]:
        step()
    with world.open(12) as broker:
        assert {stream.name: records(stream) for stream in broker.streams()} == before
        assert sorted(before) == ["kept", "late", "short"]
        assert sorted(body for _, _, body in before["kept"]) == sorted(bodies)
        assert 0 < len(before["short"]) < 100
        broker.stream("kept").send(b"more")
        sweep(world.urls[0], SHARD, "a", 12)
        assert len(records(broker.stream("kept"))) == 101
    left = "select tablename from pg_tables where tablename ~ '_{}(_|$)' and schemaname = '{}'"
    assert postgres.sql(left.format(SHARD, world.urls[0].rpartition("%3D")[2])) == []


def records(stream: leveret.Stream) -> list[tuple[int, int, bytes]]:
    """All that can be read: partitions, offsets and bodies."""
    found: list[tuple[int, int, bytes]] = []
    for partition in range(stream.partitions):
        with stream.reader(partition, "first") as reader:
            while some := reader.read(1_000):
                found += [(partition, record.offset, record.data) for record in some]
    return found


@pytest.mark.parametrize("done", range(5))
def test_a_mover_that_dies_anywhere_leaves_one_truth(world: World, done: int) -> None:
    with world.open(10) as broker:
        send(broker, 0, 30)
    steps = world.steps(10, 0, 1)
    for step in steps[:done]:
        step()
    with world.open(12) as broker:  # by whoever notices it
        shard_id = world.groups.claim(SHARD, 12)
        assert shard_id is not None
        assert shard_id.group.number == (1 if done == 4 else 0)
        assert numbers(broker) == list(range(30))
        send(broker, 30, 1)
        for step in steps[done:]:  # it was only slow
            with pytest.raises(Fenced):
                step()
        send(broker, 31, 1)
        assert numbers(broker) == list(range(32))
    if done < 4:
        world.move(12, 0, 1)  # what the first one left there is no hindrance
    with world.open(14) as broker:
        assert numbers(broker) == list(range(32))


def test_a_stale_owner_writes_neither_here_nor_there(world: World) -> None:
    stale = world.open(10)
    send(stale, 0, 3)
    world.open(11).close()
    world.move(11, 0, 1)
    with pytest.raises(LeveretError):
        send(stale, 3, 1)
    stale.close()
    with world.open(12) as broker:
        assert numbers(broker) == [0, 1, 2]
        sweep(world.urls[0], SHARD, "a", 12)
        with pytest.raises(Fenced):
            sweep(world.urls[0], SHARD, "a", 11)


# Whose a store is


def test_nodes_do_not_begin_on_the_store_of_somebody_else(
    postgres: PostgresServer, store_url: str, world: World
) -> None:
    check_store(store_url, "test")
    with leveret.open(store_url) as single:
        single.queue("orders").send("kept")
    with pytest.raises(InvalidArgument, match="messages of a server that is no node"):
        check_store(store_url, "test")
    empty = postgres.new_url(f"empty_{secrets.token_hex(8)}")
    check_store(f"{empty},{store_url.rpartition('%3D')[2]}", "test")  # which is not the first of its search path
    check_store(world.urls[0], "test")
    with pytest.raises(InvalidArgument, match="belongs to the cluster 'test'"):
        check_store(world.urls[0], "other")


def test_a_server_that_is_no_node_does_not_begin_on_the_store_of_nodes(world: World) -> None:
    world.open(1).close()
    for url in world.urls:
        with pytest.raises(InvalidArgument, match="belongs to the cluster 'test': start a node of it"):
            leveret.open(url)
