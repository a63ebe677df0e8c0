"""A cluster of one node beside single servers, on the same PostgreSQL and on files: CPU for each message.

All run at once and take turns, because the speed of a machine changes from minute to minute. A figure is the median of
the rounds, the spread is the difference between the highest and the lowest in percent of it. What a server uses while
it has nothing to do (a node looks after 32 shards) is measured before; the figure beyond it is for messages only.
Alone: `python -m bench.cluster_single`, three minutes, one with QUICK=1.
"""

import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from bench.amqp.brokers import SERVE, Target, greeting, start_leveret
from bench.amqp.load import Options, run_load
from bench.measure import cpu_seconds, progress, report
from leveret.cluster.coordination.placement import SHARDS
from leveret.config import ServerOptions
from tests.cluster.coordination.etcd_process import EtcdProcess
from tests.cluster.processes import Nodes
from tests.postgres_server import PostgresServer

NODE = "a"
SETTINGS = {"fsync": "on", "shared_buffers": "256MB", "max_wal_size": "2GB", "min_wal_size": "1GB"}
LOADS: dict[str, Options] = {"16 B": {"body": 16, "window": 1_000}, "1 KB": {"body": 1024, "window": 1_000}}


def measure_single(primary: PostgresServer, folder: Path, quick: bool) -> None:
    """Start a node and the servers, and load them in turns."""
    interval: Options = {"warmup": 1, "duration": 2} if quick else {"warmup": 2, "duration": 5}
    rounds = 3 if quick else 5
    with ExitStack() as stack:
        etcd = stack.enter_context(EtcdProcess(folder))
        store, lease_s = primary.new_url("one_node"), ServerOptions().cluster_lease_s
        nodes = stack.enter_context(Nodes(folder, etcd.url, store, SHARDS, lease_s))
        nodes.start(NODE)
        single = f"{SERVE} --store '{primary.new_url('one_server')}' --http-port 0 --sqs-port 0"
        targets = {
            "one-node cluster": target_of(nodes),
            "single server": start(stack, single, folder / "store"),
            "single server on files": start(stack, f"{SERVE} --http-port 0 --sqs-port 0", folder / "files"),
        }
        idle = {each: idle_us_per_s(target, float(interval["duration"])) for each, target in targets.items()}
        for name, load in LOADS.items():
            measure(targets, idle, name, {"queue": "bench", "delete-after": True, **interval, **load}, rounds)


def start(stack: ExitStack, serve: str, folder: Path) -> Target:
    """Start a server."""
    folder.mkdir()
    return stack.enter_context(start_leveret(serve, folder))


def target_of(nodes: Nodes) -> Target:
    """The node, for the load generator."""
    port = nodes.port(NODE)
    return Target("127.0.0.1", port, greeting("127.0.0.1", port), (nodes.pid(NODE),))


def idle_us_per_s(target: Target, seconds: float) -> float:
    """The CPU that a server uses when it has nothing to do."""
    progress("nothing to do")
    before = cpu_seconds(target.pids())
    time.sleep(seconds)
    return 1e6 * (cpu_seconds(target.pids()) - before) / seconds


def measure(targets: dict[str, Target], idle: dict[str, float], name: str, load: Options, rounds: int) -> None:
    """One load on all of them."""
    cpu_us: dict[str, list[float]] = {each: [] for each in targets}
    busy_us: dict[str, list[float]] = {each: [] for each in targets}
    per_s: dict[str, list[float]] = {each: [] for each in targets}
    for number in range(rounds):
        for each, target in targets.items():
            progress(f"{name}, {each}, round {number + 1}")
            result = run_load(target, load)
            cpu_us[each].append(result["broker_cpu_us"])
            busy_us[each].append(result["broker_cpu_us"] - idle[each] / result["messages_per_s"])
            per_s[each].append(result["messages_per_s"])
    medians = {each: statistics.median(found) for each, found in cpu_us.items()}
    busy = {each: statistics.median(found) for each, found in busy_us.items()}
    for each, found in cpu_us.items():
        report(
            "cluster_single",
            load=name,
            server=each,
            rounds=rounds,
            cpu_us_per_message=round(medians[each], 2),
            spread_percent=round(100 * (max(found) - min(found)) / medians[each]),
            of_single_server=round(medians[each] / medians["single server"], 3),
            idle_ms_per_s=round(idle[each] / 1000, 1),
            cpu_us_beyond_idle=round(busy[each], 2),
            beyond_idle_of_single_server=round(busy[each] / busy["single server"], 3),
            messages_per_s=round(statistics.median(per_s[each])),
        )


def main() -> None:
    with PostgresServer(**SETTINGS) as primary, tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
        measure_single(primary, Path(name), bool(os.environ.get("QUICK")))


if __name__ == "__main__":
    main()
