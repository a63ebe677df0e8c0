"""The memory of reports: a day of 16 million events, and a hot queue whose backlog is ten hours long.

Each report is the command `leveret pipeline report` on an archive, with 1,200 MB for Java; the memory is that of all
of its processes together (PSS), looked at ten times a second.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from bench.amqp.processes import tree
from bench.measure import report, timed
from leveret.spark.archive import opened
from leveret.spark.events import EVENTS
from leveret.spark.generate import START, TrafficVolume, events
from leveret.spark.layout import written
from leveret.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUICK = bool(os.environ.get("QUICK"))
EVENTS_TOTAL = 160_000 if QUICK else 16_000_000
EVENTS_PER_MESSAGE = 3.05
GOAL_BYTES = 2 << 30
JAVA_MEMORY = "1200m"
BACKLOG_S = 36_000
LOOK_S = 0.1
KIB = 1024


def busy_day(spark: "SparkSession") -> "DataFrame":
    """Fifty queues."""
    return events(spark, TrafficVolume(round(EVENTS_TOTAL / EVENTS_PER_MESSAGE)))


def hot_queue(spark: "SparkSession") -> "DataFrame":
    """One queue: what comes in an hour is taken ten hours later, each message after a time of its own."""
    messages = EVENTS_TOTAL // 3
    came = F.timestamp_millis(F.lit(int(START.timestamp() * 1000)) + F.floor(F.col("id") * (3_600_000 / messages)))
    waited_ms = F.lit(BACKLOG_S * 1000) * F.lit(0.5) + F.floor(F.pmod(F.xxhash64("id"), F.lit(BACKLOG_S * 1000)))
    taken = F.timestamp_millis(F.unix_millis(came) + waited_ms.cast("bigint"))
    held_ms = F.pmod(F.xxhash64("id", F.lit(1)), F.lit(60_000))
    done = F.timestamp_millis(F.unix_millis(taken) + held_ms)
    facts = {"event": F.lit("published"), "at": came, "enqueued_at": came, "bytes": F.lit(100), "priority": F.lit(0)}
    taking = {"event": F.lit("delivered"), "at": taken, "deliveries": F.lit(1), "consumer": F.lit("worker")}
    ending = {**taking, "event": F.lit("settled"), "at": done, "reason": F.lit("acked"), "held_ms": held_ms}
    of = {"vhost": F.lit("/"), "queue": F.lit("hot"), "queue_id": F.lit(1), "seq": F.col("id") + 1}
    rows = [
        F.struct(
            *((of | each).get(name, F.lit(None)).cast(column.spark).alias(name) for name, column in EVENTS.items())
        )
        for each in (facts, taking, ending)
    ]
    return spark.range(messages).select(F.inline(F.array(*rows)))


CASES = {"busy_day": busy_day, "hot_queue": hot_queue}


def memory_bytes(root: int) -> int:
    """The memory of a process and all that it has started; pages that several have count once."""
    total = 0
    for pid in tree(root):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:  # it has ended
            continue
        total += sum(int(line.split()[1]) * KIB for line in lines if line.startswith("Pss:"))
    return total


def reported(archive: Path, out: Path) -> tuple[int, float]:
    """The greatest memory of a report, and how long it took."""
    command = [sys.executable, "-m", "leveret", "pipeline", "report", "--path", str(archive), "--out", str(out)]
    command += ["--events-only", "--master", "local[2]", "--conf", f"spark.driver.memory={JAVA_MEMORY}"]
    peak = 0
    with timed() as span, subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            peak = max(peak, memory_bytes(process.pid))
            sleep(LOOK_S)
    if process.returncode:
        raise SystemExit(f"the report failed with code {process.returncode}")
    return peak, span.seconds


def main() -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR")) as name:
        directory = Path(name)
        totals = {}
        spark = session("local[2]", **{"spark.driver.memory": "4g"})
        try:
            for case, made in CASES.items():
                rows = made(spark)
                with opened(str(directory / case)) as tables:
                    files = written(rows, tables, "events")
                    tables.commit(tables.table("events"), files)
                totals[case] = sum(file.record_count for file in files)
        finally:
            spark.stop()
        for case, total in totals.items():
            peak, seconds = reported(directory / case, directory / f"{case}-report")
            figures = {"peak_bytes": peak, "goal_bytes": GOAL_BYTES, "seconds": round(seconds, 1)}
            report("spark_memory", case=case, events=total, **figures)


if __name__ == "__main__":
    main()
