"""A store that comes back from a backup, and one of a role that may do nothing but what it has to."""

import asyncio
from collections.abc import Iterator

import pytest

import leveret
from leveret.cluster.catalog.log import PostgresLog
from leveret.cluster.shards.groups import ShardGroups
from tests.postgres_server import PostgresServer
from tests.waiting import wait_until

LARGE = b"x" * 400_000


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """One that archives its log."""
    with PostgresServer(archive_mode="on", archive_command="mkdir -p ../archive && cp %p ../archive/%f") as server:
        yield server


def use(url: str) -> None:
    """Have something of every kind in a store."""
    with leveret.open(url, segment_bytes=64 << 10) as broker:
        orders = broker.queue("orders")
        orders.send_many([b"." * 1000] * 200)
        orders.ack_many(orders.receive(150))
        orders.send(LARGE, priority=9)
        broker.stream("clicks").send("clicked")
        wait_until(lambda: (store := broker.runtime.store) is not None and store.meta.oldest > 1)


def contents(url: str) -> tuple[set[int], list[object]]:
    """The sizes of messages and the bodies of records in it; it is used further."""
    with leveret.open(url) as broker:
        sizes = {len(message.body) for message in broker.queue("orders").receive(100)}
        records = [record.body for record in broker.stream("clicks").read(offset="first")]
        broker.queue("orders").send("and on")
        return sizes, records


def test_a_dump_is_opened_like_the_original(server: PostgresServer) -> None:
    for name in ("shop", "restored"):
        server.sql(f"create database {name}")
    original, copy = (server.url().replace("///postgres", f"///{name}") for name in ("shop", "restored"))
    dump = str(server.folder / "shop.dump")
    use(original)
    with leveret.open(original) as broker:
        server.run("pg_dump", "--format=custom", f"--file={dump}", f"--dbname={original}")
        broker.queue("orders").send("too late for the dump")
    server.run("pg_restore", f"--dbname={copy}", dump)
    assert contents(copy) == ({1000, len(LARGE)}, ["clicked"])


def test_a_base_backup_and_the_archived_log_bring_it_back_to_a_point_in_time(server: PostgresServer) -> None:
    url = server.new_url("shop")
    other = PostgresServer()
    try:
        other.restore(server)
        use(url)
        server.sql("select pg_create_restore_point('before the mistake')")
        with leveret.open(url) as broker:
            broker.queue("orders").purge()
        ((last,),) = server.sql("select pg_walfile_name(pg_switch_wal())")
        server.wait_for(f"select 1 from pg_stat_archiver where last_archived_wal >= '{last}'")
        fetch = f"cp {server.folder}/archive/%f %p"
        other.start(restore_command=fetch, recovery_target_name="before the mistake", recovery_target_action="promote")
        other.wait_for("select 1 where not pg_is_in_recovery()")
        assert contents(other.url("shop")) == ({1000, len(LARGE)}, ["clicked"])
    finally:
        other.close()


def test_a_role_needs_nothing_but_a_schema_to_make_tables_in(server: PostgresServer) -> None:
    server.sql("create role keeper login; create schema kept; grant usage, create on schema kept to keeper")
    server.sql("revoke all on schema public from public; revoke temporary on database postgres from public")
    url = server.url("kept").replace("user=leveret", "user=keeper")
    use(url)
    assert contents(url) == ({1000, len(LARGE)}, ["clicked"])
    assert asyncio.run(barrier(PostgresLog(url))) == 0
    groups = ShardGroups(url, "shop")
    assert groups.claim(1, 7) is not None
    groups.close()


async def barrier(log: PostgresLog) -> int:
    try:
        return await log.barrier()
    finally:
        await log.close()
