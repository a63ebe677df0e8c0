"""Moving messages from one queue to others, mostly dead letters back to where they died.

Both sides of each move are in one commit batch: after a crash a message is in exactly one of the queues.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from leveret.clock import closed_gate
from leveret.core import browse
from leveret.core.broker import Broker as Core
from leveret.core.errors import InvalidArgument
from leveret.core.filters import BLOB, Filter
from leveret.core.held import Held
from leveret.core.message import Message as Content
from leveret.core.properties import Properties
from leveret.core.properties import content as wire_content
from leveret.core.publish import route_of
from leveret.core.queue import Queue as CoreQueue
from leveret.runtime.sweep import STEP, Sweep

if TYPE_CHECKING:
    from leveret.runtime.runtime import Runtime

STEPS_PER_SECOND = 10  # of a redrive with a rate
PERSISTENT = 1  # as in message.pxd
FIRST_DEATH = "x-first-death-queue"


@dataclass(slots=True)
class RedriveResult:
    """What a redrive has done so far.

    `skipped` matched and could not be moved: their queue is gone or full, or the caller may not write to it.
    """

    matched: int = 0
    moved: int = 0
    skipped: int = 0


class Redrive(Sweep):
    """One redrive of one queue."""

    def __init__(
        self,
        runtime: Runtime,
        source: CoreQueue,
        to: str | None,
        chosen: Filter,
        limit: int | None,
        rate: float | None,
        dry_run: bool,
        allows: Callable[[str], bool] | None = None,
    ) -> None:
        """Move what a filter chose to a queue, or (None) each message to the queue where it died first.

        `allows` is asked about each destination once: messages stay for which it says False.
        """
        super().__init__(runtime, source, chosen, limit, dry_run)
        if rate is not None and rate <= 0:
            raise InvalidArgument(f"rate is a number of messages per second, not {rate!r}")
        self._to = to
        self._rate = rate
        self._allows = None if allows is None else cache(allows)
        self._moved = 0
        self._skipped = 0

    @property
    def result(self) -> RedriveResult:
        """What was done so far."""
        return RedriveResult(self.matched, self._moved, self._skipped)

    def run(self, progress: Callable[[RedriveResult], None] | None) -> RedriveResult:
        """Step by step until the end; `progress` hears of every step."""
        self.begin()
        while not self.ended:
            before = self._moved
            self._runtime.wait(self.step())
            if progress is not None:
                progress(self.result)
            self._pause(self._moved - before)
        return self.result

    def check(self, core: Core) -> None:
        """Refuse a target that is not there."""
        vhost = self._source.vhost
        if self._to is not None and (core.away is None or core.away(vhost, self._to, Properties()) is None):
            core.topology.vhost(vhost).queue(self._to)

    def take(self, core: Core, held: Held, content: Content) -> None:
        """Put a message into its target and take it out of its source, or leave it where it is."""
        name: Any = self._to if self._to is not None else (content.properties.headers or {}).get(FIRST_DEATH)
        if self._is_allowed(name) and self._move(core, name, content):
            withdrawn = browse.withdraw(self._source, held)
            assert withdrawn is not None, "what was ready in this hold of the lock still is"
            browse.moved(withdrawn)
            self._moved += 1
        else:
            self._skipped += 1

    def _is_allowed(self, name: Any) -> bool:
        return self._allows is None or (isinstance(name, str) and self._allows(name))

    def _move(self, core: Core, name: Any, content: Content) -> bool:
        """Put a message into a queue, here or on its way to another broker; False when it is not there, or full."""
        vhost = self._source.vhost
        target: CoreQueue | None = core.topology.vhost(vhost).queues.get(name)
        if target is not None:
            wire = content.content, content.header_len
            return target is not self._source and self._publish(core, target, target.route, wire, content)
        away = None if core.away is None or not isinstance(name, str) else core.away(vhost, name, content.properties)
        if away is None:
            return False
        carried, keeper = away
        return self._publish(core, keeper, route_of("", name), wire_content(carried, content.body), content)

    def _publish(self, core: Core, target: CoreQueue, route: bytes, wire: tuple[bytes, int], content: Content) -> bool:
        """Publish a message again; False when the target is full."""
        seq = core.publish(
            [target],
            route,
            *wire,
            priority=content.priority,
            persistent=content.flags & PERSISTENT != 0,
            blob=content.flags & BLOB != 0,
            group=content.group,
        )
        return seq != 0

    def step_size(self) -> int:
        """As many messages as the rate allows in one step."""
        return STEP if self._rate is None else max(1, min(STEP, int(self._rate / STEPS_PER_SECOND)))

    def _pause(self, moved: int) -> None:
        """Keep to the rate."""
        if self._rate is not None and moved and not self.ended:
            until_ms = self._runtime.clock.now_ms() + round(1000 * moved / self._rate)
            self._runtime.clock.wait(closed_gate(), until_ms)
