"""A journal on a table, opened and closed as a test likes."""

import threading
from collections.abc import Callable
from typing import Any

from leveret.core.errors import JournalFailed
from leveret.storage.journal.postgres.store import TableStore, Takeover
from leveret.storage.journal.postgres.table import ShardTable
from tests.storage.journal.world import Life


class TableWorld(Life):
    """One process that owns a shard, inline unless it is asked for a thread."""

    store: TableStore

    def __init__(
        self,
        table: ShardTable,
        *,
        claim: Takeover | None = None,
        threaded: bool = False,
        names: Callable[[set[int]], dict[int, str]] = lambda numbers: {},
        pause: Callable[[float], object] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.table = table
        self.store = TableStore(
            table,
            self.journal,
            self.state,
            threading.Lock(),
            self.clock,
            self.settings,
            claim=claim,
            threaded=threaded,
            on_failure=self.failures.append,
            names=names,
            pause=pause,
        )
        self.tried = threading.Event()
        self._wait = self.store._writer._pause
        self.store._writer._pause = self._pause

    def _pause(self, seconds: float) -> None:
        """An attempt at a frame has failed."""
        self.tried.set()
        self._wait(seconds)

    def begin(self, body: bytes) -> tuple[int, threading.Event]:
        """Publish in the thread of the writer; give the message and what tells that it was confirmed."""
        told = threading.Event()

        def outcome(error: JournalFailed | None) -> None:
            if error is None:
                told.set()

        with self.store.lock:
            seq = self.publish(body)
            self.commit.notify(self.commit.pending, outcome)
            self.commit.kick()
        return seq, told
