"""The same report from this process alone and from a Spark cluster of one master and two workers on this machine.

    python -m tests.pipeline.cluster

Every row of every table is compared. Not among the tests that always run: it starts five Java processes.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark

import leveret
from leveret.core.errors import NotFound
from leveret.pipeline.report import build
from leveret.pipeline.session import SMALL, has_java, session
from tests.pipeline.history import push
from tests.sources import ROOT

PATIENCE_S = 120
TURNS, MESSAGES, STEP_S = 40, 60, 7.0
START_MS = 1_767_225_600_000
MASTER = re.compile(r"Starting Spark master at (spark://[\d.]+:\d+)")
MEMORY = "512m"


def fill(directory: Path) -> None:
    """Minutes in several queues: messages of some tenants, acknowledged, given back, refused or left."""
    clock = leveret.ManualClock(START_MS)
    with leveret.open(directory, sync="never", clock=clock) as broker:
        queues = [broker.queue(name, dead_letter="dead", max_priority=3) for name in ("orders", "mails", "reports")]
        for turn in range(TURNS):
            for queue in queues:
                for number in range(MESSAGES):
                    queue.send(b"x" * (number + turn + 1), priority=number % 3, group=f"tenant-{number % 4}")
            clock.advance(STEP_S)
            for place, queue in enumerate(queues):
                for number, message in enumerate(queue.receive(MESSAGES - place)):
                    clock.advance(0.001 * (number % 7))
                    (message.reject if number % 13 == 0 else message.nack if number % 5 == 0 else message.ack)()
        for queue in queues:
            push(queue, "pushed")


@contextmanager
def process(log: Path, *arguments: str) -> Iterator[Path]:
    """A part of Spark for as long as a block lasts, and its log."""
    home = os.path.dirname(pyspark.__file__)
    environ = os.environ | {
        "SPARK_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable,
        # Its port would be a fixed one.
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
    }  # fmt: skip
    with log.open("wb") as file:
        command = [os.path.join(home, "bin", "spark-class"), *arguments]
        with subprocess.Popen(command, stdout=file, stderr=file, env=environ) as running:
            try:
                yield log
            finally:
                running.terminate()


def wait_for(log: Path, pattern: str | re.Pattern[str]) -> str:
    """Wait until something is in a log; give the first group, or all of it."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if found := re.search(pattern, log.read_text()):
            return found[found.re.groups]
        time.sleep(0.1)
    raise SystemExit(f"{log.name} did not say {pattern}:\n{log.read_text()}")


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """A master and two workers; gives the address of the master."""
    spark = "org.apache.spark.deploy"
    with ExitStack() as stack:
        here = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        log = stack.enter_context(process(folder / "master.log", f"{spark}.master.Master", *here))
        url = wait_for(log, MASTER)
        for number in (1, 2):
            work = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{number}"), url)
            log = stack.enter_context(process(folder / f"worker-{number}.log", f"{spark}.worker.Worker", *here, *work))
            wait_for(log, "Successfully registered with master")
        yield url


def report(master: str, data: Path, out: Path) -> int:
    """A report by whoever is behind a master; gives how many processes computed it."""
    settings = SMALL | {"spark.executor.memory": MEMORY, "spark.driver.memory": MEMORY}
    # Executors of a cluster have no package of ours installed here: they find it where we do.
    settings["spark.executorEnv.PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    spark = session(master, **settings)
    try:
        build(spark, {"path": str(data), "partitionBytes": "65536"}, out, period="minute")
        return int(spark._jsc.sc().getExecutorMemoryStatus().size())
    finally:
        spark.stop()


def rows(folder: Path) -> list[tuple[Any, ...]]:
    """The rows of a table in an order of their own; numbers that were added up are rounded."""
    table = pq.read_table(folder)
    found = [tuple(_comparable(row[name]) for name in sorted(table.column_names)) for row in table.to_pylist()]
    return sorted(found, key=repr)


def _comparable(value: Any) -> Any:
    return float(f"{value:.9g}") if isinstance(value, float) else value


def main() -> None:
    """Make both reports and compare them; the exit code says whether they are equal."""
    if not has_java():
        raise NotFound("Spark needs Java 17 or newer: on Debian, `apt-get install default-jre-headless`")
    with tempfile.TemporaryDirectory(prefix="leveret-cluster-") as name:
        folder = Path(name)
        fill(folder / "data")
        report("local[*]", folder / "data", folder / "local")
        with cluster(folder) as url:
            processes = report(url, folder / "data", folder / "cluster")
        different = 0
        for table in sorted(path.name for path in (folder / "local" / "tables").iterdir()):
            local, remote = (rows(folder / side / "tables" / table) for side in ("local", "cluster"))
            different += local != remote
            print(f"{table:<14} {len(local):>7} rows  {'equal' if local == remote else 'DIFFERENT'}")
    print(f"the driver and {processes - 1} executors; {different} tables differ")
    sys.exit(1 if different or processes < 3 else 0)


if __name__ == "__main__":
    main()
