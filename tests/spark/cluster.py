"""The same jobs from this process alone and on a Spark cluster of one master and two workers on this machine.

    python -m tests.spark.cluster

Reports by `leveret pipeline report --master ...` are compared row by row with one that was made here, and lives by
--master, --remote and spark-submit with each other. Not among the tests that always run: it starts many Java processes.
"""

import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark

import leveret
from leveret.cli import submit
from leveret.core.errors import NotFound
from leveret.spark.report import build
from leveret.spark.session import SMALL, has_java, session
from tests.sources import ROOT
from tests.spark.history import push
from tests.spark.shipping import shipped
from tests.spark.wide_batch import wide_batch

PATIENCE_S = 120
TURNS, MESSAGES, STEP_S = 40, 60, 7.0
START_MS = 1_767_225_600_000
SEGMENT_BYTES = 1 << 18  # so that there are some to be archived
MASTER = re.compile(r"Starting Spark master at (spark://[\d.]+:\d+)")
LISTENING = re.compile(r"Spark Connect server started at: \S*?:(\d+)")
CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
RUN_S = 600
MEMORY = "512m"
HERE = (str(ROOT / "src"), str(ROOT))
CONNECT_PATH = Path(sys.prefix) / "spark-connect"
"""What a client of Spark Connect needs beside pyspark; `make spark-cluster` installs it there."""
EVERYWHERE = {
    "spark.executor.memory": MEMORY,
    "spark.driver.memory": MEMORY,
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # or one worker does it all before the other is there
    # Executors of a cluster have no package of ours installed here: they find it where we do.
    "spark.executorEnv.PYTHONPATH": os.pathsep.join(HERE),
}
"""Settings of a driver that uses the cluster."""


def fill(directory: Path, handed: Path) -> None:
    """Minutes in several queues: messages of some tenants, acknowledged, given back, refused or left."""
    handed.mkdir()  # there may be nothing to be handed over
    clock = leveret.ManualClock(START_MS)
    options: dict[str, Any] = {"sync": "never", "archive_dir": str(handed), "segment_bytes": SEGMENT_BYTES}
    with leveret.open(directory, clock=clock, **options) as broker:
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
def process(log: Path, *arguments: str, host: str = "127.0.0.1", path: Sequence[str] = ()) -> Iterator[Path]:
    """A part of Spark for as long as a block lasts, and its log; what it starts finds modules on this path alone."""
    home = os.path.dirname(pyspark.__file__)
    environ = os.environ | {
        "SPARK_HOME": home, "SPARK_LOCAL_IP": host, "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(path),
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
        anywhere = ("--port", "0", "--webui-port", "0")
        words = [f"{spark}.master.Master", "--host", "127.0.0.1", *anywhere]
        url = wait_for(stack.enter_context(process(folder / "master.log", *words)), MASTER)
        for number in (1, 2):
            # Spark runs a second copy of a task on another host only.
            host = f"127.0.0.{number}"
            room = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / f"work-{number}"))
            words = [f"{spark}.worker.Worker", "--host", host, *anywhere, *room, url]
            log = stack.enter_context(process(folder / f"worker-{number}.log", *words, host=host))
            wait_for(log, "Successfully registered with master")
        yield url


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """A Spark Connect server for this machine only; gives its address."""
    token = secrets.token_hex(8)
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",  # or it listens to everybody
        "spark.connect.grpc.binding.port": "0",
        "spark.connect.authenticate.token": token,
        "spark.driver.memory": MEMORY,
        "spark.ui.enabled": "false",
    }
    flags = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    words = ("org.apache.spark.deploy.SparkSubmit", "--class", CONNECT, "--master", "local[2]", *flags)
    with process(folder / "connect.log", *words, path=(*HERE, str(CONNECT_PATH))) as log:
        # By this name only a token may go without TLS.
        yield f"sc://localhost:{wait_for(log, LISTENING)}/;token={token}"


def run(form: str, program: list[str], *words: str) -> dict[str, Any]:
    """Run a job as a user would; print and give what it tells."""
    began_s = time.monotonic()
    path = os.pathsep.join([*HERE, str(CONNECT_PATH)])
    environ = os.environ | {"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}  # or spark-submit takes any python3
    done = subprocess.run([*program, *words, "--json"], env=environ, capture_output=True, timeout=RUN_S)
    if done.returncode:
        raise SystemExit(f"{words[0]} {form} ended with {done.returncode}:\n{done.stderr.decode()[-4000:]}")
    told: dict[str, Any] = json.loads(done.stdout)
    facts = ", ".join(f"{name} {value}" for name, value in told.items() if isinstance(value, int))
    print(f"{words[0][:9]:<10} {form:<13} {time.monotonic() - began_s:>5.0f} s  {facts}", flush=True)
    return told


def on_cluster(folder: Path, master: str) -> int:
    """The jobs on a cluster, by each of the ways to run them; gives how many results differ."""
    settings = [word for name, value in (SMALL | EVERYWHERE).items() for word in ("--conf", f"{name}={value}")]
    data = ("--path", str(folder / "data"), "--archive", str(folder / "handed"))
    command = [sys.executable, "-m", "leveret", "pipeline"]
    there = ("--master", master, *settings)
    run("--master", command, "report", *data, "--period", "minute", "--out", str(folder / "cluster"), *there)
    archived = run("--master", command, "archive", *data, "--out", str(folder / "archive"), *there)
    lives = [run("--master", command, "lifecycle", *data, "--out", str(folder / "lives-1"), *there)]
    spark_submit = [os.path.join(os.path.dirname(pyspark.__file__), "bin", "spark-submit"), "--master", master]
    job = [*spark_submit, *settings, submit.__file__]
    lives.append(run("spark-submit", job, "lifecycle", *data, "--out", str(folder / "lives-2")))
    with connect_server(folder) as url:
        remote = ("--out", str(folder / "lives-3"), "--remote", url)
        lives.append(run("--remote", command, "lifecycle", *data, *remote))
        lives.append(run("SQL", [sys.executable, "-m", "tests.spark.connect_child"], url, str(folder)))
    different = [each for each in lives if each["messages"] != lives[0]["messages"]]
    return len(different) + (not archived["segments"])


def executors(folder: Path) -> int:
    """How many workers have run an executor for every application."""
    return sum(1 for work in folder.glob("work-*") if any(work.glob("app-*/*")))


def report_here(folder: Path) -> None:
    """The report of this process alone."""
    spark = session("local[*]", **SMALL)
    try:
        options = {"path": str(folder / "data"), "archive": str(folder / "handed")}
        build(spark, options, folder / "local", period="minute")
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
        fill(folder / "data", folder / "handed")
        report_here(folder)
        with cluster(folder) as url:
            different = on_cluster(folder, url) + shipped(folder, url) + wide_batch(folder, url, EVERYWHERE)
        for table in sorted(path.name for path in (folder / "local" / "tables").iterdir()):
            local, remote = (rows(folder / side / "tables" / table) for side in ("local", "cluster"))
            different += local != remote
            print(f"{table:<14} {len(local):>7} rows  {'equal' if local == remote else 'DIFFERENT'}")
        used = executors(folder)
    print(f"executors on {used} workers; {different} results differ")
    sys.exit(1 if different or used < 2 else 0)


if __name__ == "__main__":
    main()
