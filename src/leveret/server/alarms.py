"""Memory and disk: when one of them runs short, publishers are blocked until there is more. Consumers go on."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass

from leveret.observability.logs import Log
from leveret.server import memory

LOG = Log("alarms")


@dataclass(frozen=True, slots=True)
class Gauges:
    """What is looked at; tests have their own."""

    resident_bytes: Callable[[], int]
    free_bytes: Callable[[], int]
    journal_full: Callable[[], bool]


def gauges(data: str, journal_full: Callable[[], bool]) -> Gauges:
    """Those of this process and of the disk with a directory."""
    return Gauges(memory.resident_bytes, lambda: shutil.disk_usage(data).free, journal_full)


class Alarms:
    """Looks at the gauges, and says why publishers have to wait."""

    def __init__(
        self, gauges: Gauges, memory_bytes_max: int, free_bytes_min: int, tell: Callable[[str | None], None]
    ) -> None:
        """Nothing is short yet; `tell` hears of every change."""
        self._gauges = gauges
        self._memory_bytes_max = memory_bytes_max
        self._free_bytes_min = free_bytes_min
        self._tell = tell
        self._blind = False
        self.reason: str | None = None

    def check(self) -> None:
        """Look at everything once; called every second. What cannot be seen is taken to be as it was."""
        try:
            reason = self._short()
        except OSError as error:
            if not self._blind:
                LOG.error("memory or disk cannot be looked at", reason=error, advice="alarms stay as they are")
            self._blind = True
            return
        self._blind = False
        if reason == self.reason:
            return
        self.reason = reason
        if reason is None:
            LOG.info("alarm ended")
        else:
            LOG.warning("alarm", reason=reason, advice="publishers are blocked: add room, or consume what waits")
        self._tell(reason)

    def _short(self) -> str | None:
        """What there is too little of, in the words that RabbitMQ has for it."""
        short = []
        if self._gauges.resident_bytes() > self._memory_bytes_max:
            memory.give_back()
            if self._gauges.resident_bytes() > self._memory_bytes_max:
                short.append("memory")
        if self._gauges.journal_full() or self._gauges.free_bytes() < self._free_bytes_min:
            short.append("disk")
        return f"low on {' & '.join(short)}" if short else None
