"""What was counted in shards that other nodes have by now: counters of a process never go back."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from leveret.core.histogram import Histogram
from leveret.core.names import INTERNAL_VHOST
from leveret.core.tally import Tally

if TYPE_CHECKING:
    from leveret.runtime.runtime import Runtime


class Departed:
    """The counters of shards that are gone; nothing on a single server."""

    def __init__(self) -> None:
        self.tallies: defaultdict[str, Tally] = defaultdict(Tally)
        self.sync_us = Histogram()
        self.batch_entries = Histogram()
        self.written_bytes = 0

    def keep(self, runtime: Runtime) -> None:
        """A shard goes; also one whose journal has failed."""
        with runtime.lock:
            for queue in runtime.core.queues.values():
                if queue.vhost != INTERNAL_VHOST:
                    self.tallies[queue.policy.queue_type].keep(queue)
            for kind, tally in runtime.core.departed.items():
                self.tallies[kind].merge(tally)
        if runtime.store is not None:
            self.sync_us.add(runtime.store.sync_us)
            self.batch_entries.add(runtime.store.batch_entries)
            self.written_bytes += runtime.store.bytes_written
