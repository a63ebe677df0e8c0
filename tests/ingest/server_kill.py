"""Kills a server while it commits batches, again and again, and counts rows: `python -m tests.ingest.server_kill 40`.

Every row goes to a queue and to a stream.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import leveret
from leveret.client.calls import ClientCall
from leveret.client.queue import RemoteQueue
from leveret.client.sinks import BatchProgress, commit_batch, put_piece
from leveret.client.stream import RemoteStream
from leveret.core.errors import LeveretError
from leveret.ingest.row_groups import constant
from tests.ingest.batches import bodies, row_group
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S

PIECES = 4
PIECE_ROWS = 5_000
ROWS = PIECES * PIECE_ROWS
BLIND_S = 0.1  # within which a kill falls that does not wait for a decision
PARTITIONS = 2
BOTH = constant("exchange", "amq.fanout")


class Figures(NamedTuple):
    """What one kill left behind."""

    committed: int  # whether the decision was made before the kill
    done_before: int  # rows that were published in frames from before the kill
    lost: int
    duplicated: int


class Attack:
    """A server whose commits are interrupted."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.server = ServerProcess(folder)
        self._chance = random.Random(seed)
        self.kills: list[Figures] = []

    def kill(self) -> Figures:
        """Stage a batch, kill the server somewhere in its commit, start it again and let Spark repeat the commit."""
        number = len(self.kills)
        self.server.start()
        with self.server.client() as broker:
            queue, stream = declared(broker)
            ends = [stream.latest(partition) for partition in range(PARTITIONS)]
            for at in range(PIECES):
                data = row_group(bodies(number * ROWS + at * PIECE_ROWS, PIECE_ROWS), BOTH)
                broker.run(put_piece("s", f"part-{number}", at, data))
            asker = threading.Thread(target=self._ask, args=(number,))
            asker.start()
            self._wait(broker, asker)
            self.server.kill()
        asker.join()
        self.server.start()
        with self.server.client() as broker:
            queue, stream = declared(broker)
            committed, done_before = self._resumed()
            # Spark has no answer: it repeats the commit if the driver lives, or else the batch.
            until = time.monotonic() + PATIENCE_S
            while not broker.run(self._order(number)).published:
                assert time.monotonic() < until, "the batch is not published"
            found = [Counter(drained(queue)), Counter(appended(stream, ends))]
        assert self.server.stop() == 0
        lost = sum(1 for body in bodies(number * ROWS, ROWS) for place in found if not place[body])
        figures = Figures(committed, done_before, lost, sum(place.total() - len(place) for place in found))
        self.kills.append(figures)
        return figures

    def _wait(self, broker: leveret.RemoteBroker, asker: threading.Thread) -> None:
        """Wait for the moment of the kill: any before the decision, or when so many rows are published."""
        rows = self._chance.randrange(-ROWS // 4, ROWS)
        if rows < 0:
            time.sleep(self._chance.uniform(0, BLIND_S))
        while rows >= 0 and asker.is_alive() and broker.queue("orders", create=False).stats().ready < rows:
            continue

    def _order(self, number: int) -> ClientCall[BatchProgress]:
        return commit_batch("s", number, [(f"part-{number}", PIECES)], ROWS)

    def _ask(self, number: int) -> None:
        """Commit, as a driver that loses the server."""
        with leveret.connect(self.server.http_url, retries=0) as broker:
            try:
                broker.run(self._order(number))
            except LeveretError:
                return

    def _resumed(self) -> tuple[int, int]:
        """Whether the server found a batch that was to be published further, and how far that was."""
        line = next((line for line in self.server.text.splitlines() if "published further" in line), "")
        return bool(line), int(line.rpartition("done=")[2]) if line else 0


def declared(broker: leveret.RemoteBroker) -> tuple[RemoteQueue, RemoteStream]:
    """Where rows go."""
    found = broker.queue("orders"), broker.stream("log", partitions=PARTITIONS)
    for each in found:
        broker.exchange("amq.fanout", "fanout").bind(each.name)
    return found


def appended(stream: RemoteStream, ends: list[int]) -> list[bytes]:
    """Everything in a stream after these offsets."""
    found: list[bytes] = []
    for partition, first in enumerate(ends):
        with stream.reader(partition, first) as reader:
            while records := reader.read(1_000):
                found += [record.data for record in records]
    return found


def drained(queue: RemoteQueue) -> list[bytes]:
    """Everything in a queue, taken."""
    found: list[bytes] = []
    while taken := queue.receive(1_000):
        found += [message.data for message in taken]
        queue.ack_many(taken)
    return found


def summary(kills: list[Figures]) -> str:
    """One line about all kills."""
    within = sum(1 for each in kills if each.committed and each.done_before < ROWS)
    lost, duplicated = sum(each.lost for each in kills), sum(each.duplicated for each in kills)
    decided = sum(each.committed for each in kills)
    where = f"{decided} after the decision, {within} amid publishing"
    return f"{len(kills)} kills, {where}: lost {lost}, duplicated {duplicated}"


def main(kills: int) -> None:
    """Kill so often."""
    seed = random.randrange(1 << 30)
    with tempfile.TemporaryDirectory() as folder:
        attack = Attack(Path(folder), seed)
        for _ in range(kills):
            attack.kill()
            print(f"seed {seed}, {summary(attack.kills)}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
