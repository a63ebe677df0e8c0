"""Going through what waits in a queue, step by step: redrive moves the messages of a filter, discard removes them.

Each step is one hold of the lock and one commit batch, with both sides of each move: after a crash a message is in
exactly one of the queues. What arrives after the start is left alone, so that a sweep ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from leveret.clock import closed_gate
from leveret.core import browse
from leveret.core.broker import Broker as Core
from leveret.core.errors import InvalidArgument
from leveret.core.filters import BLOB, Filter
from leveret.core.held import Held
from leveret.core.ids import parse_id
from leveret.core.message import Message as Content
from leveret.core.properties import Properties
from leveret.core.properties import content as wire_content
from leveret.core.publish import route_of
from leveret.core.queue import Queue as CoreQueue

if TYPE_CHECKING:
    from leveret.core.browse import Cursor
    from leveret.runtime.runtime import Runtime

STEP = 500  # messages that one hold of the lock looks at
STEPS_PER_SECOND = 10  # of a redrive with a rate
PERSISTENT = 1  # as in message.pxd
FIRST_DEATH = "x-first-death-queue"
MESSAGE_IDS_MAX = 1_000
TIMES = {"since": "since_ms", "until": "until_ms"}


def filter_of(tag: int, conditions: Mapping[str, Any]) -> Filter:
    """A filter; times are datetimes with a zone or seconds since 1970, ids those of this broker or of publishers."""
    translated = {TIMES.get(name, name): value for name, value in conditions.items()}
    for name, inner in TIMES.items():
        if conditions.get(name) is not None:
            translated[inner] = _ms(name, conditions[name])
    if conditions.get("message_ids") is not None:
        translated["message_ids"] = list(_meant(tag, conditions["message_ids"]))
    return Filter.from_dict(translated)


def _meant(tag: int, ids: Any) -> Iterator[Any]:
    """What each id may mean: the number of a message here, and the id that a dead letter keeps."""
    if not isinstance(ids, Collection) or isinstance(ids, str) or len(ids) > MESSAGE_IDS_MAX:
        raise InvalidArgument(f"the condition message_ids is an array of at most {MESSAGE_IDS_MAX} ids: ask twice")
    for each in ids:
        yield each
        number = parse_id(tag, each) if isinstance(each, str) else 0
        if number:
            yield number


def _ms(name: str, when: Any) -> int:
    if isinstance(when, datetime):
        if when.tzinfo is None:
            raise InvalidArgument(f"{name} has no time zone: use datetime.now(timezone.utc) or the like")
        when = when.timestamp()
    if isinstance(when, bool) or not isinstance(when, int | float):
        raise InvalidArgument(f"{name} is a datetime or seconds since 1970, not {when!r}")
    return round(when * 1000)


class Sweep:
    """One way through one queue; what is done with a message is in `take`."""

    def __init__(self, runtime: Runtime, source: CoreQueue, chosen: Filter, limit: int | None, dry_run: bool) -> None:
        """Nothing was looked at yet; a dry run only counts."""
        self._runtime = runtime
        self._source = source
        self._chosen = chosen
        self._limit = limit
        self._dry_run = dry_run
        self._cursor: Cursor | None = ()
        self._last_seq = 0
        self._step = STEP
        self.matched = 0

    def begin(self) -> None:
        """Note what is there now; what comes later is left alone."""
        with self._runtime as core:
            self._last_seq = core.engine.last_seq
            self.check(core)

    def check(self, core: Core) -> None:
        """Refuse what cannot be done at all; under the lock."""

    def take(self, core: Core, held: Held, content: Content) -> None:
        """Do it with one message; under the lock."""
        raise NotImplementedError

    @property
    def ended(self) -> bool:
        return self._cursor is None

    def step(self) -> int:
        """Look at some messages, and take those that are meant; give the commit batch to wait for."""
        with self._runtime as core:
            seen, self._cursor = browse.ready_after(self._source, self._cursor or (), self._step)
            for held in seen:
                if self._limit is not None and self.matched >= self._limit:
                    self._cursor = None
                    break
                content = browse.read(held)
                if held.seq <= self._last_seq and self._chosen.accepts(content):
                    self.matched += 1
                    if not self._dry_run:
                        self.take(core, held, content)
            return self._runtime.commit()

    def withdraw(self, held: Held) -> Held:
        withdrawn = browse.withdraw(self._source, held)
        assert withdrawn is not None, "what was ready in this hold of the lock still is"
        return withdrawn


class Discard(Sweep):
    """Removes what a filter chose, for good."""

    def run(self) -> int:
        """Step by step until the end; give the number of messages."""
        self.begin()
        while not self.ended:
            self._runtime.wait(self.step())
        return self.matched

    def take(self, core: Core, held: Held, content: Content) -> None:
        browse.discarded(self.withdraw(held))


@dataclass(slots=True)
class RedriveResult:
    """What a redrive has done so far.

    `skipped` matched and could not be moved: their queue is gone or full, or the caller may not write to it.
    """

    matched: int = 0
    moved: int = 0
    skipped: int = 0


class Redrive(Sweep):
    """Moves what a filter chose to a queue, or (None) each message to the queue where it died first."""

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
        """`allows` is asked about each destination once: messages stay for which it says False."""
        super().__init__(runtime, source, chosen, limit, dry_run)
        if rate is not None and rate <= 0:
            raise InvalidArgument(f"rate is a number of messages per second, not {rate!r}")
        if rate is not None:
            self._step = max(1, min(STEP, int(rate / STEPS_PER_SECOND)))
        self._to = to
        self._rate = rate
        self._allows = None if allows is None else cache(allows)
        self._moved = 0
        self._skipped = 0

    @property
    def result(self) -> RedriveResult:
        return RedriveResult(self.matched, self._moved, self._skipped)

    def run(self, progress: Callable[[RedriveResult], None] | None) -> RedriveResult:
        """Step by step until the end, at the rate; `progress` hears of every step."""
        self.begin()
        while not self.ended:
            before = self._moved
            self._runtime.wait(self.step())
            if progress is not None:
                progress(self.result)
            moved = self._moved - before
            if self._rate is not None and moved and not self.ended:
                until_ms = self._runtime.clock.now_ms() + round(1000 * moved / self._rate)
                self._runtime.clock.wait(closed_gate(), until_ms)
        return self.result

    def check(self, core: Core) -> None:
        vhost = self._source.vhost
        if self._to is not None and (core.away is None or core.away(vhost, self._to, Properties()) is None):
            core.topology.vhost(vhost).queue(self._to)

    def take(self, core: Core, held: Held, content: Content) -> None:
        """Put a message into its target and take it out of its source, or leave it where it is."""
        name: Any = self._to if self._to is not None else (content.properties.headers or {}).get(FIRST_DEATH)
        is_allowed = self._allows is None or (isinstance(name, str) and self._allows(name))
        if is_allowed and self._move(core, name, content):
            browse.moved(self.withdraw(held))
            self._moved += 1
        else:
            self._skipped += 1

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
