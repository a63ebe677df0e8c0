"""Stops and kills drivers, executors and servers amid streaming queries, and counts rows: `make spark-kill`.

    python -m tests.spark.kills [KILLS]

Each line of the table is a query that was interrupted so often and then run to its end. Most of its time is that of
Java: each driver, and each executor, is a new one.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from leveret.core.errors import NotFound
from leveret.spark.session import SMALL, has_java
from tests.ingest.server_kill import appended, drained
from tests.server_process import ServerProcess
from tests.sources import ROOT
from tests.spark.cluster import EVERYWHERE, cluster
from tests.spark.query_child import Query
from tests.waiting import wait_until

PARTITIONS = 2
BATCH_ROWS = 500
POLL_S = 0.005
BLIND_S = 0.4  # within which a kill falls after the batch began
PATIENCE_S = 240.0
CLUSTER = EVERYWHERE | {"spark.executor.extraJavaOptions": SMALL["spark.driver.extraJavaOptions"]}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
}
SLOW_S = 120.0
LEASE = "1s"  # the shortest


class Line(NamedTuple):
    """What came of one query."""

    name: str
    runs: int
    interrupted: int
    rows: int
    lost: int
    duplicated: int


@dataclass(frozen=True)
class Site:
    """A server, and one query on it."""

    server: ServerProcess
    query: Query
    rows: int
    sink: str

    def line(self, name: str, runs: int, interrupted: int) -> Line:
        """Count what is at the sink."""
        with self.server.client() as client:
            if self.sink == "stream":
                found = Counter(appended(client.stream("out", create=False), [0] * PARTITIONS))
            else:
                found = Counter(drained(client.queue("out", create=False)))
        lost = sum(1 for body in bodies(self.rows) if not found[body])
        return Line(name, runs, interrupted, self.rows, lost, found.total() - len(found))

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[bytes]]:
        """The query in a process group of its own, which ends with the block."""
        driver = subprocess.Popen(self.query.command(), cwd=ROOT, start_new_session=True, stderr=subprocess.DEVNULL)
        try:
            yield driver
        finally:
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()

    def finish(self) -> None:
        """Let it end."""
        with self.running() as driver:
            assert driver.wait(PATIENCE_S) == 0, f"the driver ended with {driver.returncode}"

    def restart(self) -> None:
        """Kill the server, and start it again at the same place."""
        port = str(self.server.ports["http"])
        self.server.kill()
        self.server.start("--http-port", port)

    def pause(self, lease: object) -> None:
        """Wait until the lease of what is reserved is over, if it has one."""
        if lease:
            with self.server.client() as client:
                queue = client.queue("in", create=False)
                wait_until(lambda: queue.stats().leased == 0)

    def is_between(self) -> bool:
        """Whether a batch has begun that is not noted as done."""
        return self.query.batches("offsets") > self.query.batches("commits")

    def has_begun(self, known: int) -> bool:
        """Whether a batch after so many is on its way."""
        return self.query.batches("offsets") > max(known, self.query.batches("commits"))


def bodies(rows: int) -> list[bytes]:
    """Numbered bodies."""
    return [b"%d" % number for number in range(rows)]


@contextmanager
def context(source: str, sink: str, batches: int, **options: str) -> Iterator[Site]:
    """A server with a stream or queue `in` that has something, and one `out` that has nothing."""
    rows = batches * BATCH_ROWS
    with tempfile.TemporaryDirectory(prefix="leveret-kills-") as name, ServerProcess(Path(name)) as server:
        with server.client() as client:
            for each, kind in (("in", source), ("out", sink)):
                (client.stream(each, partitions=PARTITIONS) if kind == "stream" else client.queue(each))
            place = client.stream("in", create=False) if source == "stream" else client.queue("in")
            for first in range(0, rows, BATCH_ROWS):
                place.send_many(bodies(rows)[first : first + BATCH_ROWS])
        read = {"url": server.http_url, source: "in", "maxRecordsPerTrigger": str(BATCH_ROWS)}
        if source == "stream":
            read["startingOffsets"] = "earliest"
        # A stream is written to by its name, as a queue is.
        write = {"url": server.http_url, "queue": "out"}
        (Path(name) / "notes").mkdir()
        query = Query({**read, **options}, write, str(Path(name) / "checkpoint"))
        yield Site(server, query, rows, sink)


def wait(driver: subprocess.Popen[bytes], happened: Callable[[], object]) -> bool:
    """Wait for something; False when the driver ended before it."""
    until = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < until, "nothing happens"
        if driver.poll() is not None:
            return False
        time.sleep(POLL_S)
    return True


def kill_drivers(source: str, sink: str, kills: int, chance: random.Random, **lease: str) -> Line:
    """Kill a driver when it has noted what a batch is to read, before it notes that the batch is done."""
    between = 0
    with context(source, sink, kills + 2, **lease) as here:
        for _ in range(kills):
            known = here.query.batches("offsets")
            with here.running() as driver:
                assert wait(driver, partial(here.has_begun, known)), "the driver ended before it was killed"
                time.sleep(chance.uniform(0, BLIND_S))
            between += here.is_between()
            here.pause(lease)
        here.finish()
        return here.line(f"driver killed{', lease over' if lease else ''}, {source} to {sink}", kills, between)


def stop_drivers(source: str, sink: str, stops: int, **lease: str) -> Line:
    """Stop a query after a batch, and let it come back when its lease is over and the server was killed."""
    stopped = 0
    with context(source, sink, 3 * stops, **lease) as here:
        for number in range(1, stops + 1):
            replace(here, query=replace(here.query, stop_after=1)).finish()
            stopped += number <= here.query.batches("commits") < 3 * stops
            here.pause(lease)
            here.restart()
        here.finish()
        return here.line(f"driver stopped{', lease over' if lease else ''}, {source} to {sink}", stops, stopped)


def restart_servers(source: str, sink: str, kills: int, chance: random.Random) -> Line:
    """Kill the server amid a query that goes on, and start it again at the same place."""
    with context(source, sink, kills + 2) as here, here.running() as driver:
        restarts = 0
        for number in range(1, kills + 1):
            if not wait(driver, partial(here.has_begun, number)):
                break
            time.sleep(chance.uniform(0, BLIND_S))
            here.restart()
            restarts += 1
        assert driver.wait(PATIENCE_S) == 0, f"the driver ended with {driver.returncode}"
        return here.line(f"server killed, {source} to {sink}", kills, restarts)


def kill_executors(master: str, source: str, sink: str) -> Line:
    """Kill an executor of a cluster that is amid a task; Spark runs the task again."""
    with context(source, sink, 1) as here:
        notes = Path(here.query.checkpoint).parent / "notes"
        query = replace(here.query, master=master, settings=CLUSTER, notes=str(notes), slow_s=SLOW_S)
        here = replace(here, query=query)
        with here.running() as driver:
            assert wait(driver, lambda: [each for each in notes.glob("*-0-0") if each.read_text()]), "no task ran"
            os.kill(int(next(notes.glob("*-0-0")).read_text()), signal.SIGKILL)
            assert driver.wait(PATIENCE_S) == 0, f"the driver ended with {driver.returncode}"
        again = sum(1 for each in notes.iterdir() if not each.name.endswith("-0"))
        return here.line(f"executor killed, {source} to {sink}", 1, min(again, 1))


def speculate(master: str, source: str, sink: str) -> Line:
    """Let Spark run a second copy of a task that is slow."""
    with context(source, sink, 1, minPartitions="4") as here:
        notes = Path(here.query.checkpoint).parent / "notes"
        settings = CLUSTER | SPECULATION
        here = replace(
            here, query=replace(here.query, master=master, settings=settings, notes=str(notes), slow_s=SLOW_S)
        )
        here.finish()
        copies = sum(1 for each in notes.iterdir() if not each.name.endswith("-0"))
        return here.line(f"speculation, {source} to {sink}", 1, copies)


def attacks(kills: int) -> Iterator[Line]:
    """One after the other."""
    chance = random.Random(random.randrange(1 << 30))
    for source, sink in (("stream", "queue"), ("queue", "queue"), ("queue", "stream")):
        yield kill_drivers(source, sink, kills, chance)
    yield kill_drivers("queue", "queue", kills, chance, lease=LEASE)
    for source, sink in (("queue", "queue"), ("stream", "queue"), ("stream", "stream")):
        yield stop_drivers(source, sink, kills)
    for sink in ("queue", "stream"):
        yield stop_drivers("queue", sink, kills, lease=LEASE)
    for source, sink in (("stream", "stream"), ("queue", "queue")):
        yield restart_servers(source, sink, kills, chance)
    with tempfile.TemporaryDirectory(prefix="leveret-cluster-") as folder, cluster(Path(folder)) as master:
        for source in ("stream", "queue"):
            yield kill_executors(master, source, "queue")
            yield speculate(master, source, "queue")


def main(kills: int) -> None:
    """Print the table; the exit code says whether every row came once."""
    if not has_java():
        raise NotFound("Spark needs Java 17 or newer: on Debian, `apt-get install default-jre-headless`")
    wrong = 0
    print(f"{'':<44}{'runs':>6}{'hit':>6}{'rows':>8}{'lost':>6}{'duplicated':>12}{'seconds':>9}")
    began = time.monotonic()
    for line in attacks(kills):
        wrong += line.lost + line.duplicated
        figures = f"{line.runs:>6}{line.interrupted:>6}{line.rows:>8}{line.lost:>6}{line.duplicated:>12}"
        print(f"{line.name:<44}{figures}{time.monotonic() - began:>9.0f}", flush=True)
        began = time.monotonic()
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
