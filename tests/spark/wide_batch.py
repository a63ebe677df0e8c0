"""One batch of a queue that is larger than a batch is by default, read by the executors of several workers."""

import subprocess
import time
from collections import Counter
from pathlib import Path

from tests.ingest.server_kill import drained
from tests.server_process import ServerProcess
from tests.sources import ROOT
from tests.spark.query_child import Query

ROWS = 300_000
SENT = 10_000  # at once
TASKS = 8
WORKERS = 2
RUN_S = 600


def wide_batch(folder: Path, master: str, settings: dict[str, str]) -> int:
    """Copy a queue to another one in one batch; gives how much is wrong with it."""
    notes = folder / "notes"
    for place in (notes, folder / "wide"):
        place.mkdir()
    with ServerProcess(folder / "wide") as server, server.client() as client:
        given, taken = client.queue("in"), client.queue("out")
        for first in range(0, ROWS, SENT):
            given.send_many([b"%d" % number for number in range(first, first + SENT)])
        source = {"url": server.http_url, "queue": "in", "maxRecordsPerTrigger": str(ROWS), "minPartitions": str(TASKS)}
        sink = {"url": server.http_url, "queue": "out"}
        query = Query(source, sink, str(folder / "checkpoint"), master=master, settings=settings, notes=str(notes))
        began_s = time.monotonic()
        subprocess.run(query.command(), cwd=ROOT, check=True, timeout=RUN_S, stderr=subprocess.DEVNULL)
        seconds = time.monotonic() - began_s
        found = Counter(drained(taken))
        left = given.stats().ready
    used = len({note.read_text() for note in notes.iterdir()})
    lost, again = ROWS - len(found), found.total() - len(found)
    told = f"{ROWS:,} rows in {query.batches('commits')} batch by {used} executors: {lost} lost, {again} duplicated"
    print(f"{'queue':<10} {'--master':<13} {seconds:>5.0f} s  {told}", flush=True)
    return lost + again + left + (query.batches("commits") != 1) + (used != WORKERS)
