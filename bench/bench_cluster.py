"""A server on PostgreSQL: messages/s, the time to a confirm, and how many messages go into one commit; then nodes.

PostgreSQL runs on this machine with fsync on, alone and then with a standby that every commit waits for (it has the
same disk, so the two share what it can do). One producer with confirms and one consumer with acknowledgements, bodies
of 200 bytes; each commit is one row. The first load meets a database that has to make every WAL file anew, the others
one that has used ones ready, as it has after some hours. Then come a cluster of one node beside single servers: see
cluster_single.py, several nodes with queues, SQS, REST, streams and sinks: see cluster_nodes.py, and shards in two
databases: see cluster_groups.py. It takes sixteen minutes, and four with QUICK=1.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.amqp.brokers import SERVE, Target, start_leveret
from bench.amqp.cases import latencies, rates
from bench.amqp.load import Options, run_load
from bench.cluster_groups import measure_groups
from bench.cluster_nodes import measure_nodes
from bench.cluster_single import SETTINGS, measure_single
from bench.measure import progress, report
from tests.postgres_server import PostgresServer

BODY_BYTES = 200
GOAL_PER_S = 20_000
QUICK = bool(os.environ.get("QUICK"))
INTERVAL: Options = {"warmup": 1, "duration": 3} if QUICK else {"warmup": 3, "duration": 10}
GROUPS_INTERVAL: Options = {"warmup": 1, "duration": 3} if QUICK else {"warmup": 2, "duration": 8}
SECONDS = float(INTERVAL["warmup"]) + float(INTERVAL["duration"])
PACED: Options = {"rate": GOAL_PER_S, "window": 10_000, "prefetch": 10_000}
NEW_WAL_LOADS = {"20,000 messages/s, new WAL files": PACED}
# Those that write much come last: what they leave to checkpoints and to the kernel would be measured with the others.
LOADS: dict[str, Options] = {
    "1,000 messages/s": {"rate": 1_000},
    "20,000 messages/s": PACED,
    "window 1,000": {"window": 1_000},
    "window 10,000": {"window": 10_000, "prefetch": 10_000},
}
KILLS = 3 if QUICK else 20
REQUESTS = 1_000 if QUICK else 8_000
WAL_PIECES = 5  # of 100 MB each: more than the loads at a fixed rate write


@contextmanager
def database(standby: bool) -> Iterator[list[PostgresServer]]:
    """A PostgreSQL, and a synchronous standby if that is wanted."""
    with ExitStack() as stack:
        primary = stack.enter_context(PostgresServer(**SETTINGS))
        servers = [primary]
        if standby:
            second = PostgresServer(**SETTINGS)
            stack.callback(second.close)
            servers.append(second.copy(primary).start())
            primary.sql("alter system set synchronous_standby_names = '*'")
            primary.sql("select pg_reload_conf()")
            primary.wait_for("select 1 from pg_stat_replication where sync_state = 'sync'")
        yield servers


def make_wal_ready(servers: list[PostgresServer]) -> None:
    """Let all of them have WAL files that were used before: to make one takes much longer than a commit."""
    piece = "select count(pg_logical_emit_message(false, '', repeat('x', 1000000))) from generate_series(1, 100)"
    for statement in [*[piece] * WAL_PIECES, "checkpoint", "checkpoint"]:
        servers[0].sql(statement)
        for standby in servers[1:]:
            servers[0].wait_for("select 1 from pg_stat_replication where replay_lsn >= pg_current_wal_flush_lsn()")
            standby.sql("checkpoint")


def last_frame(primary: PostgresServer, schema: str) -> int:
    ((segment,),) = primary.sql(f"select segment from {schema}.leveret_shard")
    ((number,),) = primary.sql(f"select max(seq) from {schema}.leveret_segment_0_{segment}")
    return int(str(number))


def measure(primary: PostgresServer, target: Target, schema: str, standby: bool, name: str, load: Options) -> None:
    before = last_frame(primary, schema)
    step: Options = {"queue": "bench", "delete-after": True, "body": BODY_BYTES, **INTERVAL, **load}
    result = run_load(target, step)
    frames = last_frame(primary, schema) - before
    figures = (latencies if "rate" in load else rates)([result])
    report(
        "cluster",
        load=name,
        body_bytes=BODY_BYTES,
        standby=standby,
        **figures,
        messages_per_frame=round(result["published_per_s"] * SECONDS / frames, 1),
        goal_messages_per_s=GOAL_PER_S,
    )


def measure_all(servers: list[PostgresServer], target: Target, schema: str, loads: dict[str, Options]) -> None:
    standby = len(servers) > 1
    for name, load in loads.items():
        progress(f"{name}{', with a standby' if standby else ''}")
        measure(servers[0], target, schema, standby, name, load)


def main() -> None:
    for standby in (False, True):
        schema = "bench"
        with database(standby) as servers, tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
            url = servers[0].new_url(schema)
            serve = f"{SERVE} --store '{url}' --http-port 0 --sqs-port 0"
            with start_leveret(serve, Path(name)) as target:
                measure_all(servers, target, schema, NEW_WAL_LOADS)
                make_wal_ready(servers)
                measure_all(servers, target, schema, LOADS)
    with database(standby=False) as servers, tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
        make_wal_ready(servers)
        measure_single(servers[0], Path(name), QUICK)
    with database(standby=False) as servers, tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
        make_wal_ready(servers)
        measure_nodes(servers[0], Path(name), INTERVAL, KILLS, REQUESTS)
    measure_groups(SETTINGS, GROUPS_INTERVAL, os.environ.get("BENCH_DIR"))


if __name__ == "__main__":
    main()
