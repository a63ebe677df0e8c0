"""A journal on a table, opened and closed as a test likes."""

import threading
from collections.abc import Callable
from typing import Any

from leveret.journal.table import Table
from leveret.journal.table_store import Claim, TableStore
from tests.journal.world import Life


class TableWorld(Life):
    """One process that owns a shard, inline unless it is asked for a thread."""

    store: TableStore

    def __init__(
        self,
        table: Table,
        *,
        claim: Claim | None = None,
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
