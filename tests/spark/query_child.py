"""A streaming query from a source to a sink of a server, in a process of its own that tests kill.

python -m tests.spark.query_child JSON

The JSON is that of a Query. Tasks leave a file for each attempt in `notes`, with the process that their executor is.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.streaming.query import StreamingQuery

from leveret.spark.session import SMALL, session

EXECUTOR = b"CoarseGrainedExecutorBackend"
POLL_S = 0.05


@dataclass(frozen=True)
class Query:
    """What is read, where it goes, and for how long the first attempt at a batch waits for a second one.

    After `stop_after` batches it is stopped, as an operator does it; 0: it goes on to its end.
    """

    source: dict[str, str]
    sink: dict[str, str]
    checkpoint: str
    master: str = "local[1]"
    settings: dict[str, str] = field(default_factory=dict)
    notes: str = ""
    slow_s: float = 0.0
    stop_after: int = 0

    def command(self) -> list[str]:
        """What runs it in a process of its own."""
        return [sys.executable, "-m", "tests.spark.query_child", json.dumps(asdict(self))]

    def batches(self, log: str) -> int:
        """How many batches a log of the checkpoint has."""
        return sum(1 for path in Path(self.checkpoint, log).glob("[0-9]*"))

    def run(self, spark: SparkSession) -> None:
        """Start it, and wait for its end."""
        last = self.batches("commits") + self.stop_after
        running = self.start(spark)
        while self.stop_after and running.isActive:
            if self.batches("commits") >= last:
                running.stop()
            time.sleep(POLL_S)
        running.awaitTermination()

    def start(self, spark: SparkSession) -> StreamingQuery:
        """Run it until everything is written that is there now."""
        frame = spark.readStream.format("leveret").options(**self.source).load().select("value")
        if self.notes:
            frame = frame.select(udf(noted(self.notes, self.slow_s), "binary", useArrow=False)("value").alias("value"))
        writer = frame.writeStream.format("leveret").options(**self.sink, checkpointLocation=self.checkpoint)
        return writer.trigger(availableNow=True).start()


def noted(notes: str, slow_s: float) -> Callable[[bytes], bytes]:
    """Passes values on; each attempt leaves a note, and the first one at the first partition waits for a second one."""

    def work(value: bytes) -> bytes:
        context = TaskContext.get()
        assert context is not None, "this runs in tasks"
        place, attempt = context.partitionId(), context.attemptNumber()
        note = Path(notes, f"{context.stageId()}-{place}-{attempt}")
        if not note.exists():
            note.write_text(str(executor()))
            until = time.monotonic() + (slow_s if place == attempt == 0 else 0)
            while time.monotonic() < until and not Path(notes, f"{context.stageId()}-{place}-1").exists():
                time.sleep(POLL_S)
        return value

    return work


def executor() -> int:
    """The process of the executor that this task is of; 0 when the driver runs it."""
    pid = os.getpid()
    while pid > 1 and EXECUTOR not in Path(f"/proc/{pid}/cmdline").read_bytes():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid if pid > 1 else 0


def main(text: str) -> None:
    """Run a query to its end."""
    query = Query(**json.loads(text))
    spark = session(query.master, **SMALL | query.settings)
    query.run(spark)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
