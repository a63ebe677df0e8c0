"""A queue as operators see it: look inside, cancel, purge, pause, delete, redrive, discard."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Unpack

from leveret.clock import give_turn
from leveret.core import browse
from leveret.core.arguments import DISPLAY_NAME
from leveret.core.errors import InvalidArgument
from leveret.core.filters import Filter
from leveret.core.held import Held
from leveret.core.ids import parse_id
from leveret.runtime.keywords import Conditions
from leveret.runtime.message import Peeked, look
from leveret.runtime.queue import RuntimeQueue
from leveret.runtime.redrive import Discard, Redrive, RedriveResult, filter_of
from leveret.runtime.stats import QueueStats, queue_stats
from leveret.runtime.verbs import Durable, OldTwins, Public, durably, in_thread, twin
from leveret.storage.blobs import body_bytes

if TYPE_CHECKING:
    from leveret.core.browse import Cursor

BROWSE_MAX = 10_000  # messages that one call gives: each has its body with it
BROWSE_STEP = 500  # messages that one hold of the lock looks at
STATES = ("ready", "scheduled", "backing-off", "leased")


class PeekView:
    """Messages that were looked at, until there are enough of them or of their bytes; the first one always fits."""

    def __init__(self, count_max: int, bytes_max: int | None) -> None:
        self.seen: list[Peeked] = []
        self.full = False
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._bytes = 0

    def add(self, peeked: Peeked) -> None:
        """One more, if there is room for it."""
        if self._bytes_max is not None:
            pointer = peeked.pointer
            self._bytes += len(peeked.content.content) if pointer is None else body_bytes(pointer)
            if self.seen and self._bytes > self._bytes_max:
                self.full = True
                return
        self.seen.append(peeked)
        self.full = len(self.seen) >= self._count_max


class ManagedQueue(RuntimeQueue, OldTwins, metaclass=Public):
    """The part of a queue that is about the queue and not about one message."""

    __slots__ = ()

    @property
    def arguments(self) -> dict[str, Any]:
        """What it was declared with, as AMQP clients know it."""
        return dict(self._core.arguments or {})

    @property
    def display_name(self) -> str | None:
        """What people call it, if that is not its name."""
        found: str | None = (self._core.arguments or {}).get(DISPLAY_NAME)
        return found

    @property
    def created_at(self) -> datetime | None:
        """When it was declared first; None if a version of Leveret did that which did not note it."""
        created_ms = self._core.created_ms
        return datetime.fromtimestamp(created_ms / 1000, UTC) if created_ms else None

    def __len__(self) -> int:
        with self.runtime:
            return self.core.depth

    def __bool__(self) -> bool:
        return True

    def stats(self) -> QueueStats:
        """Its figures."""
        with self.runtime:
            return queue_stats(self.core, self.runtime.waiters.count(self.core))

    def browse(
        self, limit: int = 100, *, state: str = "ready", bytes_max: int | None = None, **conditions: Unpack[Conditions]
    ) -> list[Peeked]:
        """Up to `limit` messages in the order of delivery, without taking them; with `bytes_max`, one or so many bytes.

        Conditions: headers, contains, since, until, priority_min, priority_max, group, message_ids, routing_key.
        """
        if type(limit) is not int or not 1 <= limit <= BROWSE_MAX:
            raise InvalidArgument(f"browse gives 1 to {BROWSE_MAX} messages, not {limit!r}")
        if state not in STATES:
            raise InvalidArgument(f"state is one of {', '.join(STATES)}, not {state!r}")
        chosen = filter_of(self.tag, conditions)
        view = PeekView(limit, bytes_max)
        if state == "ready":
            self._browse_ready(view, chosen)
        else:
            with self.runtime:
                self._choose(view, browse.holdings(self.core, state), chosen)
        return view.seen

    def _browse_ready(self, view: PeekView, chosen: Filter) -> None:
        """Look at what is ready, step by step, so that others get the lock in between."""
        cursor: Cursor | None = ()
        while cursor is not None and not view.full:
            with self.runtime:
                found, cursor = browse.ready_after(self.core, cursor, BROWSE_STEP)
                self._choose(view, found, chosen)
            give_turn()

    def _choose(self, view: PeekView, found: list[Held], chosen: Filter) -> None:
        """Look at those that meet the conditions, until that is enough."""
        for held in found:
            if view.full:
                return
            if chosen.accepts(browse.read(held)):
                view.add(look(self, held))

    def scheduled(self, limit: int = 100) -> list[Peeked]:
        """The messages whose delay has not ended, the next one first."""
        return self.browse(limit, state="scheduled")

    @durably
    def cancel(self, message_id: str) -> Durable[bool]:
        """Remove a message that is scheduled for later; False when it is not."""
        with self.runtime:
            found = browse.cancel(self.core, parse_id(self.tag, message_id))
            return self.runtime.commit(), found

    @durably
    def purge(self) -> Durable[int]:
        """Remove everything that is ready; give the number of messages."""
        with self.runtime:
            count = browse.purge(self.core)
            return self.runtime.commit(), count

    @durably
    def pause(self) -> Durable[None]:
        """Hand nothing out until resume(), also after a restart; sending goes on."""
        return self._pause(True)

    @durably
    def resume(self) -> Durable[None]:
        """Hand messages out again."""
        return self._pause(False)

    def _pause(self, paused: bool) -> Durable[None]:
        """Set or lift the pause."""
        with self.runtime as core:
            core.pause_queue(self.core, paused)
            return self.runtime.commit(), None

    @durably
    def delete(self, *, if_unused: bool = False, if_empty: bool = False) -> Durable[int]:
        """Delete the queue with everything in it; give the number of messages that were ready."""
        with self.runtime as core:
            count = core.delete_queue(self.core, if_unused=if_unused, if_empty=if_empty)
            self.runtime.waiters.wake_all([self._core.id])
            return self.runtime.commit(), count

    def redrive(
        self,
        /,
        to: str | ManagedQueue | None = None,
        *,
        limit: int | None = None,
        rate: float | None = None,
        dry_run: bool = False,
        progress: Callable[[RedriveResult], None] | None = None,
        **conditions: Unpack[Conditions],
    ) -> RedriveResult:
        """Move messages to another queue, by default each to the one where it died first.

        At most `rate` a second; conditions are those of browse. A dry run only counts.
        """
        target = to.name if isinstance(to, ManagedQueue) else to
        chosen = filter_of(self.tag, conditions)
        return Redrive(self.runtime, self.core, target, chosen, limit, rate, dry_run).run(progress)

    def discard(self, /, *, limit: int | None = None, dry_run: bool = False, **conditions: Unpack[Conditions]) -> int:
        """Remove the ready messages that meet conditions, those of browse; give their number. A dry run only counts."""
        if not any(value is not None for value in conditions.values()):
            raise InvalidArgument("discard wants a condition: purge() removes everything")
        return Discard(self.runtime, self.core, filter_of(self.tag, conditions), limit, dry_run).run()

    # The same for asyncio

    _acancel = twin(cancel)
    _apurge = twin(purge)
    _apause = twin(pause)
    _aresume = twin(resume)
    _adelete = twin(delete)
    _aredrive = in_thread(redrive)
    _adiscard = in_thread(discard)
