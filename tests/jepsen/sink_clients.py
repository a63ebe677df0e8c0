"""A client of a sink: it stages rows and commits them as a batch, as Spark does, and repeats what is not answered.

A commit that is answered promises that each row is in its queue, or on its way there, once. Rows are named as messages
are. Each request may go to another node.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.ingest.batches import row_group, texts
from tests.jepsen.history import INVOKE, OK, PUBLISH, History
from tests.jepsen.http_link import LOST, RestLink
from tests.jepsen.wanderer import Connect, Gone, Wanderer

ROWS = 40
PIECES = 2
PART = "p"


class SinkWriter(Wanderer[RestLink]):
    """Writes batch after batch, each with rows for all queues."""

    lost = LOST

    def __init__(
        self, name: str, connect: Connect[RestLink], first: int, history: History, queues: Sequence[str], pause_s: float
    ) -> None:
        """`pause_s` is the time between two batches."""
        super().__init__(name, connect, first, history)
        self._queues = queues
        self._pause_s = pause_s
        self._batch = 0
        self._staged: int | None = None

    def talk(self, client: RestLink, life: int) -> None:
        while not self.ended.is_set():
            self._stage(client)
            self._commit(client)
            self._batch += 1
            self.ended.wait(self._pause_s)

    @property
    def _part(self) -> str:
        return f"{PART}{self._batch}"

    def _rows(self) -> list[tuple[str, str]]:
        """The rows of a batch: the queue and the name of each."""
        first = self._batch * ROWS
        return [(self._queues[row % len(self._queues)], f"{self.name} {row}") for row in range(first, first + ROWS)]

    def _stage(self, client: RestLink) -> None:
        """Stage the rows of a batch, unless that was done."""
        if self._staged == self._batch:
            return
        rows = self._rows()
        for queue, message in rows:
            self.history.note(self.name, PUBLISH, INVOKE, queue, message)
        for number in range(PIECES):
            some = rows[number::PIECES]
            data = row_group(
                [message.encode() for _, message in some], texts("queue", [queue.encode() for queue, _ in some])
            )
            client.ask(f"PUT /sinks/{self.name}/parts/{self._part}/{number}", data)
        self._staged = self._batch

    def _commit(self, client: RestLink) -> None:
        """Ask for the commit until it is done."""
        order = {"parts": [{"part": self._part, "pieces": PIECES}], "rows": ROWS}
        while (told := client.ask(f"POST /sinks/{self.name}/batches/{self._batch}", order))["state"] != "published":
            if self.ended.is_set():
                raise Gone(told)
        assert told["dropped"] == 0, told
        for queue, message in self._rows():
            self.history.note(self.name, PUBLISH, OK, queue, message)
