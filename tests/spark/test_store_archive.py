"""The archive of a store in PostgreSQL: segments of all shards, wherever they are, each row once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import leveret
from leveret.cluster.catalog.log import PostgresLog
from leveret.cluster.shards.groups import ShardGroups, shards_of
from leveret.core.errors import InvalidArgument, NotFound, PreconditionFailed, StoreUnreachable
from leveret.embedded.broker import open_shard
from leveret.spark.archive import Archive, archive
from leveret.spark.archive_state import ArchivedJournal, ArchiveState
from leveret.spark.lifecycle import lifecycle
from leveret.spark.store_segments import StoreSegments
from leveret.spark.tables import read_table
from leveret.storage.journal.postgres.store import Takeover
from tests.spark.history import rows_of
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.postgres_server import PostgresServer

QUEUES = {0: "orders", 3: "invoices"}
ROUNDS = 20
WAITING = 3


@pytest.fixture
def handed(tmp_path: Path) -> Path:
    return tmp_path / "handed"


def opened(store: str, shard: int, epoch: int, **options: Any) -> leveret.Broker:
    """The broker of a shard, whose segments are small."""
    return open_shard(store, shard, Takeover("test", epoch), on_failure="raise", segment_bytes=4096, **options)


async def defined(store: str) -> None:
    """Let a store have the definitions of a cluster."""
    log = PostgresLog(store)
    await log.barrier()
    await log.close()


def work(store: str, epoch: int, handed: Path) -> None:
    """Let messages come and go in every shard until old segments were handed over, and leave one with what waits."""
    for shard, name in QUEUES.items():
        with opened(store, shard, epoch, archive_dir=str(handed)) as broker:
            queue, old = broker.queue(name), partial(glob, str(handed / f"shard={shard}" / "seg-*.log"))
            before = set(old())
            for number in range(ROUNDS):
                queue.send(bytes(500), headers={"number": number})
                queue.receive()[0].ack()
            wait_until(partial(grown, old, before))
            seal(broker)
            queue.send_many([b"waits"] * WAITING)
            seal(broker)


def grown(old: Callable[[], list[str]], before: set[str]) -> bool:
    """Whether there are more old segments than before."""
    return set(old()) > before


def seal(broker: leveret.Broker) -> None:
    """Let another segment be written from now on."""
    with broker.runtime as core:
        core.journal.begin_segment()
        frame = broker.runtime.commit()
    broker.runtime.wait(frame)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_all_shards_are_archived_from_files_and_tables(spark: SparkSession, store_url: str, handed: Path) -> None:
    out = handed.parent / "out"
    job = Archive(str(out), (str(handed),), store=store_url, remove_segments=True)
    for epoch in (1, 2):
        work(store_url, epoch, handed)
        done = archive(spark, job, now_ms())
        assert done.removed_segments > 0
        assert done.segments > done.removed_segments, "some were in tables still"
        assert not list(handed.rglob("seg-*"))
    assert not (out / "segments").exists()
    assert archive(spark, job, now_ms()).segments == 0

    with opened(store_url, 3, 3) as broker:  # what it empties has the number that the queue of shard 0 has
        broker.queue("invoices").purge()
        seal(broker)
    assert archive(spark, Archive(str(out), store=store_url), now_ms()).segments == 1
    events, messages = rows_of(out), rows_of(out, table="messages")
    assert Counter(row["queue"] for row in events if row["event"] == "published") == dict.fromkeys(
        QUEUES.values(), 2 * (ROUNDS + WAITING)
    )
    assert Counter((row["queue"], row["offset"]) for row in messages).most_common(1)[0][1] == 1
    assert {(row["queue"], row["queue_id"]) for row in messages} == {("orders", 1), ("invoices", (3 << 32) + 1)}
    lives = lifecycle(read_table(spark, "events", path=str(out))).groupBy("queue", "outcome").count().collect()
    assert {tuple(row) for row in lives} == {
        ("orders", "acked", 2 * ROUNDS),
        ("orders", "open", 2 * WAITING),
        ("invoices", "acked", 2 * ROUNDS),
        ("invoices", "purged", 2 * WAITING),
    }


def test_handed_segments_of_a_cluster_are_read_without_its_store(store_url: str, handed: Path) -> None:
    work(store_url, 1, handed)
    assert {row["queue"] for row in rows_of(handed) if row["event"] == "published"} == set(QUEUES.values())


@pytest.fixture
def fetching(store_url: str, tmp_path: Path) -> Iterator[StoreSegments]:
    """What fetches segments of a broker that has one shard, with two of them sealed."""
    with leveret.open(store_url) as broker:
        for _ in range(2):
            broker.queue("orders").send("x")
            seal(broker)
    with closing(StoreSegments(store_url, str(tmp_path))) as made:
        yield made


def test_a_segment_that_goes_before_its_turn_is_left_out(fetching: StoreSegments, store_url: str) -> None:
    assert fetching.newest == {0: 3}
    found = fetching.fetched(ArchiveState(), ())
    assert Path(next(found)).parts[-2:] == ("shard=0", "seg-00000000000000000001.log")
    with leveret.open(store_url, history_bytes=0) as broker:
        broker.queue("orders").purge()
        seal(broker)
        wait_until(lambda: (store := broker.runtime.store) is not None and store.oldest >= 3 and not store.kept())
    assert not [path for path in found if path.endswith("002.log")]


def test_connections_that_are_lost_between_two_segments_are_made_anew(
    fetching: StoreSegments, postgres: PostgresServer
) -> None:
    found = fetching.fetched(ArchiveState(), ())
    first = next(found)
    postgres.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'leveret'")
    assert [Path(path).name for path in (first, *found)] == [f"seg-{number:020}.log" for number in (1, 2)]


def test_the_store_of_another_broker_is_refused(fetching: StoreSegments) -> None:
    first = Path(next(fetching.fetched(ArchiveState(), ())))
    for journal in (ArchivedJournal(1, 1, 5), ArchivedJournal(1, 99, 5)):
        with pytest.raises(PreconditionFailed, match="another broker"):
            list(fetching.fetched(ArchiveState(journals={0: journal}), ()))
    fetching.drop([str(first)])
    assert not first.exists()


def test_shards_are_found_in_the_database_that_they_were_moved_to(store_url: str, postgres: PostgresServer) -> None:
    other = postgres.new_url(f"{store_url.rpartition('%3D')[2]}_other")
    for shard in (0, 1):
        opened(store_url, shard, 1).close()
    with closing(ShardGroups(store_url, "test")) as groups:
        group = groups.add(other)
        assert groups.claim(1, 1) is not None
        assert groups.switch(1, 1, group.number)
    assert shards_of(store_url) == {0: store_url, 1: other}
    with pytest.raises(PreconditionFailed, match="group 1 of the cluster 'test'"):
        shards_of(other)


def test_shards_are_found_although_the_definitions_have_moved(store_url: str, postgres: PostgresServer) -> None:
    other = postgres.new_url(f"{store_url.rpartition('%3D')[2]}_other")
    for shard in (0, 1):
        opened(store_url, shard, 1).close()
    asyncio.run(defined(store_url))
    with closing(ShardGroups(store_url, "test")) as groups:
        group = groups.add(other)
        for shard in (0, 1):
            assert groups.claim(shard, 1) is not None
        assert groups.switch(1, 1, group.number)
        for number in (group.number, 0, group.number):
            groups.move_catalog_database(number)
            assert shards_of(store_url) == shards_of(other) == {0: store_url, 1: other}


def test_stores_that_cannot_be_read_are_refused(store_url: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no journal"):
        shards_of(store_url)
    with pytest.raises(StoreUnreachable, match="does not answer"):
        shards_of("postgresql://127.0.0.1:1/none")
    with pytest.raises(InvalidArgument, match="through their server"):
        Archive(str(tmp_path), store=store_url, streams=("clicks",))
    leveret.open(tmp_path / "data").close()
    with pytest.raises(InvalidArgument, match="one of them"):
        Archive(str(tmp_path), (str(tmp_path / "data"),), store=store_url)
