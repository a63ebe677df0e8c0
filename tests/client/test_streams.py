"""Streams and consumer groups through the client: for threads, for asyncio, and when members or answers are lost."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import leveret
from tests.client.awaited import aconnected
from tests.client.flaky import Flaky
from tests.protocols.rest.world import RestWorld

SESSION_S = 10
CHILD = f"""
import sys, leveret
broker = leveret.connect(sys.argv[1], token=sys.argv[2])
consumer = broker.stream("clicks", create=False).group("billing").consumer("doomed", session={SESSION_S})
for record in consumer.poll(30):
    print(record.partition, record.offset)
assert consumer.commit()
consumer.poll(1)
print("ready", flush=True)
sys.stdin.read()
"""


def sent(client: Any, count: int, partitions: int = 4) -> set[Any]:
    """A stream with so many records; says where they are."""
    clicks = client.stream("clicks", partitions=partitions)
    return {(each.partition, each.offset) for n in range(count) for each in [clicks.send(n, key=str(n))]}


def places(records: Any) -> list[tuple[int, int]]:
    return [(record.partition, record.offset) for record in records]


def drained(consumer: Any) -> list[tuple[int, int]]:
    """Everything that a consumer still gets."""
    found: list[tuple[int, int]] = []
    while records := consumer.poll(7):
        found += places(records)
        assert consumer.commit()
    return found


def members(group: Any) -> Any:
    """Who is in a group; whoever awaits it has to ask."""
    return group.members() if callable(group.members) else group.members


@pytest.fixture(params=[leveret.connect, aconnected], ids=["threads", "asyncio"])
def either(world: RestWorld, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A client for threads, and one for asyncio that is used like it."""
    with request.param(world.url, token=world.token) as connected:
        yield connected


@pytest.fixture
def clock() -> leveret.ManualClock:
    return leveret.ManualClock()


@pytest.fixture
def still(clock: leveret.ManualClock) -> Iterator[RestWorld]:
    """A broker behind HTTP whose time stands still: a session ends when the test says so."""
    with leveret.open(clock=clock) as broker, RestWorld(broker) as running:
        yield running


def test_the_survivor_reads_what_a_killed_member_had_not_committed(
    still: RestWorld, clock: leveret.ManualClock
) -> None:
    client = leveret.connect(still.url, token=still.token)
    everything = sent(client, 100)
    command = [sys.executable, "-c", CHILD, still.url, still.token]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as doomed:
        assert doomed.stdout is not None
        lines = list(iter(doomed.stdout.readline, "ready\n"))
        doomed.kill()
    committed: set[Any] = {tuple(map(int, line.split())) for line in lines}
    assert len(committed) == 30
    group = client.stream("clicks", create=False).group("billing")
    with group.consumer("survivor", session=SESSION_S) as survivor:
        assert len(survivor.partitions) == 2
        mine = drained(survivor)
        clock.advance(SESSION_S / 2)
        survivor.poll()
        clock.advance(SESSION_S / 2)
        mine += drained(survivor)
        assert list(survivor.partitions) == [0, 1, 2, 3]
    assert set(mine) == everything - committed
    assert len(mine) == len(set(mine))
    assert sum(group.lag().values()) == 0
    client.close()


def test_two_members_read_everything_once_between_them(either: Any) -> None:
    everything = sent(either, 60)
    group = either.stream("clicks", create=False).group("billing")
    with group.consumer("a") as first, group.consumer("b") as second:
        found = drained(first) + drained(second) + drained(first)
        assert set(first.partitions) | set(second.partitions) == {0, 1, 2, 3}
        assert sorted(members(group)) == ["a", "b"]
    assert sorted(found) == sorted(everything)
    assert members(group) == {}


def test_a_commit_after_a_change_is_refused_and_the_records_come_again(either: Any) -> None:
    everything = sent(either, 20)
    group = either.stream("clicks", create=False).group("billing")
    with group.consumer("a") as first:
        assert len(first.poll(100)) == 20
        with group.consumer("b") as second:
            assert not first.commit()
            assert sorted(drained(first) + drained(second)) == sorted(everything)


def test_a_member_without_partitions_takes_over(either: Any) -> None:
    sent(either, 5, partitions=1)
    group = either.stream("clicks", create=False).group("billing")
    with group.consumer("a") as first, group.consumer("b") as second:
        assert (first.poll(), second.partitions) != ([], (0,))
        assert second.poll(wait=0.01) == []
        first.close()
        assert len(second.poll(wait=60)) == 5


def test_asyncio(world: RestWorld) -> None:
    async def main() -> None:
        async with leveret.aconnect(world.url, token=world.token) as broker:
            clicks = await broker.stream("clicks", partitions=2, max_age="7D")
            where = await clicks.send({"page": 1}, key="ann", headers={"x": 1})
            assert len(await clicks.send_many([b"1", b"2"], producer="till", sequence=0)) == 2
            (first, *_) = await clicks.read(where.partition, wait=1)
            assert (first.body, first.key, first.headers["x"]) == ({"page": 1}, "ann", 1)
            stats = await clicks.stats()
            assert (stats.records, len(stats.partitions)) == (3, 2)
            assert await clicks.earliest(0) == 0
            assert await clicks.latest(0) + await clicks.latest(1) == 3
            assert await clicks.at(where.partition, first.timestamp) == 0
            async for record in clicks.iterate(where.partition, "first"):
                assert record.offset == where.offset
                break
            group = await clicks.group("billing")
            async with group.consumer(session=SESSION_S) as consumer:
                assert consumer.partitions == (0, 1)
                found = await consumer.poll(wait=1)
                while len(found) < 3:
                    found += await consumer.poll(wait=1)
                assert await consumer.commit()
                assert list(await group.members()) == [consumer.member]
            assert sum((await group.lag()).values()) == 0
            assert set((await group.reset("earliest")).values()) == {0}
            assert [each.name for each in await clicks.groups()] == ["billing"]
            assert [each.name for each in await broker.streams()] == ["clicks"]
            await group.delete()
            assert await clicks.delete() == 3

    asyncio.run(main())


def test_asyncio_waits_for_what_comes(world: RestWorld) -> None:
    async def main() -> None:
        async with leveret.aconnect(world.url, token=world.token) as broker:
            clicks = await broker.stream("clicks")
            reader = await clicks.reader()
            waiting = asyncio.create_task(reader.read(wait=60))
            async with (await clicks.group("billing")).consumer() as consumer:
                polling = asyncio.create_task(consumer.poll(wait=60))
                stream = world.broker.stream("clicks")
                while stream.stats().waiters < 2:
                    await asyncio.sleep(0)
                await clicks.send("late")
                assert [record.body for record in (*await waiting, *await polling)] == ["late", "late"]

    asyncio.run(main())


def test_a_numbered_record_whose_answer_was_lost_is_there_once(flaky: Flaky, unsure: leveret.RemoteBroker) -> None:
    clicks = unsure.stream("clicks")
    flaky.lose = 1
    assert clicks.send("a", producer="till", sequence=1).offset is None
    assert [record.body for record in clicks.read()] == ["a"]


def test_another_record_whose_answer_was_lost_is_told(flaky: Flaky, unsure: leveret.RemoteBroker) -> None:
    clicks = unsure.stream("clicks")
    flaky.lose = 1
    with pytest.raises(leveret.Unreachable):
        clicks.send("a")
    assert [record.body for record in clicks.read()] == ["a"]


def test_more_records_than_fit_into_a_request(client: leveret.RemoteBroker) -> None:
    clicks = client.stream("clicks")
    assert clicks.send_many([b"x"] * 2_500)[-1].offset == 2_499
    assert len(clicks.read(max_records=5_000)) == 2_500
