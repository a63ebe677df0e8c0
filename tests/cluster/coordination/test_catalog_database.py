"""The definitions of a cluster go to another database while nodes use them: wherever that fails, they are in one."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from leveret.cluster.catalog import database
from leveret.cluster.catalog.catalog import ClusterCatalog
from leveret.cluster.catalog.log import PostgresLog
from leveret.cluster.shards.groups import ShardGroups, ShardLocation
from leveret.core.errors import InvalidArgument, LeveretError, NotFound, PreconditionFailed, StoreUnreachable
from leveret.storage.journal.postgres.session import PostgresSession, Run
from tests.postgres_server import PostgresServer
from tests.waiting import PATIENCE_S

CLUSTER = "test"
SHARD = 3


@pytest.fixture
def urls(postgres: PostgresServer) -> list[str]:
    """Two databases; the first one is group 0."""
    return [postgres.new_url(f"seat_{secrets.token_hex(8)}") for _ in range(2)]


@asynccontextmanager
async def node(url: str) -> AsyncIterator[ClusterCatalog]:
    """A node that was started with a database, and knows all that there is."""
    log = PostgresLog(url)
    catalog = ClusterCatalog(log, "node", 4)
    try:
        await catalog.renew_lease()
        yield catalog
    finally:
        await catalog.close()
        await log.close()


async def declare(catalog: ClusterCatalog, name: str) -> None:
    await catalog.change(lambda core: core.declare_queue("/", name).name)


def names(catalog: ClusterCatalog) -> set[str]:
    return set(catalog.replica.broker.topology.vhost("/").queues)


def groups_at(url: str) -> ShardGroups:
    return ShardGroups(url, CLUSTER)


def add_second(urls: list[str]) -> None:
    groups = groups_at(urls[0])
    groups.add(urls[1])
    groups.claim(SHARD, 7)
    groups.switch(SHARD, 7, 1)
    groups.close()


def move(url: str, number: int) -> None:
    groups = groups_at(url)
    try:
        groups.move_catalog_database(number)
    finally:
        groups.close()


def run(play: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(play, PATIENCE_S))


def test_nodes_follow_the_definitions_wherever_they_go(urls: list[str]) -> None:
    async def play() -> None:
        add_second(urls)
        async with node(urls[0]) as first, node(urls[0]) as second:
            groups = groups_at(urls[0])
            assert groups.catalog_database() == 0
            await declare(first, "before")
            for number in (1, 0, 1):  # there, back, and there again
                move(urls[0], number)
                await declare(second, f"at {number}, {second.version}")
                await first.catch_up()
                assert names(first) == names(second)
                assert groups.catalog_database() == number
            assert groups.claim(SHARD, 8) == ShardLocation(groups.all()[1], groups.all()[0])
            assert groups.claim(SHARD, 6) is None
            assert [group.url for group in groups.all()] == urls
            groups.close()
            for url in urls:
                async with node(url) as third:
                    assert names(third) == names(first)
                    rows = {row.name for row in await third.log.readers()}
                    assert rows == {first.reader, second.reader, third.reader}

    run(play())


def test_the_seat_is_not_taken_for_gone_while_the_other_database_is_asked(
    urls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_of, patience = database._rows, set[tuple[Any, ...]]()

    def look(run: Run, table: str) -> Any:
        patience.update(run("select current_setting('idle_in_transaction_session_timeout')", None)[1])
        return rows_of(run, table)

    async def play() -> None:
        add_second(urls)
        async with node(urls[0]):
            monkeypatch.setattr(database, "_rows", look)
            move(urls[0], 1)

    run(play())
    assert patience == {("1min",), ("10s",)}


def test_what_a_node_proved_counts_at_the_new_seat(urls: list[str]) -> None:
    async def play() -> None:
        add_second(urls)
        async with node(urls[0]) as first, node(urls[0]) as second:
            move(urls[0], 1)
            # Who changes something waits for those who have not come over yet.
            await declare(first, "q")
            assert {row.name: row.version for row in await first.log.readers()}[second.reader] < first.version

    run(play())


def test_a_group_without_definitions_is_no_store(urls: list[str]) -> None:
    add_second(urls)
    groups = groups_at(urls[1])
    with pytest.raises(PreconditionFailed, match="is group 1 of a cluster"):
        groups.all()
    groups.close()


def fail(monkeypatch: pytest.MonkeyPatch, statement: str) -> None:
    """Let a mover die instead of making a statement."""
    original = PostgresSession.run
    transact = PostgresSession.transact

    def dies(what: str) -> None:
        if what == statement:
            raise StoreUnreachable("killed")

    def run_or_die(self: PostgresSession, what: str, values: Any = None) -> Any:
        dies(what)
        return original(self, what, values)

    def transact_or_die(self: PostgresSession, work: Any) -> Any:
        def watched(run: Any) -> Any:
            def each(what: str, values: Any) -> Any:
                dies(what)
                return run(what, values)

            return work(each)

        return transact(self, watched)

    monkeypatch.setattr(PostgresSession, "run", run_or_die)
    monkeypatch.setattr(PostgresSession, "transact", transact_or_die)


@pytest.mark.parametrize(("statement", "holder"), [(database.THERE, 0), (database.HERE, 1)])
def test_a_mover_that_dies_leaves_the_definitions_in_one_place(
    urls: list[str], statement: str, holder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        add_second(urls)
        async with node(urls[0]) as first:
            await declare(first, "before")
            with monkeypatch.context() as patch:
                fail(patch, statement)
                with pytest.raises(StoreUnreachable, match="killed"):
                    move(urls[0], 1)
            await declare(first, "after")
            groups = groups_at(urls[0])
            assert groups.catalog_database() == holder
            with suppress(PreconditionFailed):
                groups.move_catalog_database(1)
            assert groups.catalog_database() == 1
            groups.close()
            async with node(urls[1]) as second:
                assert names(second) == {"before", "after"}

    run(play())


def test_what_cannot_have_the_definitions_is_refused(urls: list[str]) -> None:
    add_second(urls)
    refusals: list[tuple[str, int, type[LeveretError], str]] = [
        (urls[0], 0, PreconditionFailed, "already"),
        (urls[0], 5, NotFound, "no group 5"),
        (urls[0] + "&password=secret", 1, InvalidArgument, "PGPASSFILE"),
    ]
    for url, number, kind, words in refusals:
        with pytest.raises(kind, match=words):
            move(url, number)


def test_the_first_group_can_be_retired_after_it_was_the_seat(urls: list[str], postgres: PostgresServer) -> None:
    third = postgres.new_url(f"seat_{secrets.token_hex(8)}")

    async def play() -> None:
        async with node(urls[0]) as catalog:
            add_second(urls)
            move(urls[0], 1)
            groups = groups_at(urls[0])
            groups.swept(SHARD, 7)
            with pytest.raises(PreconditionFailed, match="never taken over"):
                groups.retire(0, SHARD + 1)
            for shard in range(SHARD):
                groups.claim(shard, 7)
                groups.switch(shard, 7, 1)
                groups.swept(shard, 7)
            groups.retire(0, SHARD + 1)
            groups.close()
            groups = groups_at(urls[1])
            groups.move_catalog_database(groups.add(third).number)
            groups.close()
            await declare(catalog, "found at its third place")
        late = groups_at(urls[0])  # of a node that is started with the first one
        assert [group.url for group in late.all()] == [urls[1], third]
        assert late.claim(0, 9) == ShardLocation(late.all()[0], None)
        late.close()

    run(play())
