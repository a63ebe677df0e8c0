"""A server on PostgreSQL: messages/s, the time to a confirm, and how many messages go into one commit; then nodes.

PostgreSQL runs on this machine with fsync on, alone and then with a standby that every commit waits for (it has the
same disk, so the two share what it can do). One producer with confirms and one consumer with acknowledgements, bodies
of 200 bytes; each commit is one row. Then come several nodes with queues, SQS, REST, streams and sinks: see
cluster_nodes.py. It takes eleven minutes, and two with QUICK=1.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.amqp.brokers import SERVE, Target, start_leveret
from bench.amqp.cases import latencies, rates
from bench.amqp.load import Options, run_load
from bench.cluster_nodes import measure_nodes
from bench.measure import progress, report
from tests.postgres_server import PostgresServer

BODY_BYTES = 200
GOAL_PER_S = 20_000
QUICK = bool(os.environ.get("QUICK"))
INTERVAL: Options = {"warmup": 1, "duration": 3} if QUICK else {"warmup": 3, "duration": 10}
SECONDS = float(INTERVAL["warmup"]) + float(INTERVAL["duration"])
LOADS: dict[str, Options] = {
    "window 1,000": {"window": 1_000},
    "window 10,000": {"window": 10_000, "prefetch": 10_000},
    "1,000 messages/s": {"rate": 1_000},
    "20,000 messages/s": {"rate": GOAL_PER_S, "window": 10_000, "prefetch": 10_000},
}
KILLS = 3 if QUICK else 20
REQUESTS = 1_000 if QUICK else 8_000
SETTINGS = {"fsync": "on", "shared_buffers": "256MB", "max_wal_size": "2GB"}


@contextmanager
def database(standby: bool) -> Iterator[PostgresServer]:
    """A PostgreSQL, with a synchronous standby if that is wanted."""
    with ExitStack() as stack:
        primary = stack.enter_context(PostgresServer(**SETTINGS))
        if standby:
            second = PostgresServer(**SETTINGS)
            stack.callback(second.close)
            second.copy(primary).start()
            primary.sql("alter system set synchronous_standby_names = '*'")
            primary.sql("select pg_reload_conf()")
            primary.wait_for("select 1 from pg_stat_replication where sync_state = 'sync'")
        yield primary


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


def main() -> None:
    for standby in (False, True):
        schema = "bench"
        with database(standby) as primary, tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
            url = primary.new_url(schema)
            serve = f"{SERVE} --store '{url}' --http-port 0 --sqs-port 0"
            with start_leveret(serve, Path(name)) as target:
                for load_name, load in LOADS.items():
                    progress(f"{load_name}{', with a standby' if standby else ''}")
                    measure(primary, target, schema, standby, load_name, load)
    with database(standby=False) as primary, tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
        measure_nodes(primary, Path(name), INTERVAL, KILLS, REQUESTS)


if __name__ == "__main__":
    main()
