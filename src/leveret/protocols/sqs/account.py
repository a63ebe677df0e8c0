"""What all requests of the port for SQS share: the broker, its queues, who may do what, and what is remembered."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

from leveret.core.broker import Broker as CoreBroker
from leveret.core.definition_log import Kind
from leveret.protocols.http.async_broker import AsyncBroker
from leveret.protocols.http.request import Request
from leveret.protocols.sqs.errors import SqsError
from leveret.protocols.sqs.move_tasks import DEFAULT_REGION, MoveTasks
from leveret.protocols.sqs.queues import Queues
from leveret.protocols.sqs.settings import FORWARDED, Settings, WrongRegion, region_of
from leveret.runtime.message import Message
from leveret.runtime.runtime import Runtime
from leveret.security.access import Access
from leveret.security.authorisation import Decisions

KEPT_MS = 300_000
KEPT_MAX = 10_000
RECREATE_MS = 60_000
SWEEP_EVERY = 100  # deletions: looking through all definitions at each would make many deletions slow


class Account:
    """One for all requests; to be used in the thread of the loop."""

    def __init__(
        self,
        runtime: Runtime,
        access: Access,
        async_broker: AsyncBroker,
        settings: Settings,
        everywhere: Account | None = None,
        region: str = DEFAULT_REGION,
    ) -> None:
        """Take up what a restart has interrupted; `everywhere` has the queues of all brokers, if there are others."""
        self.settings = settings
        self.access = access
        self.async_broker = async_broker
        self.runtime = runtime
        self.core = runtime.core
        self.receipts = runtime.receipts
        self.tag = runtime.core.tag
        self.queues = Queues(runtime, settings)
        self.everywhere = self.queues if everywhere is None else everywhere.queues
        self.attempts = ReceiveAttempts()
        self.decisions = Decisions()
        self.tasks = MoveTasks(self.runtime, self.everywhere, async_broker, region)
        self.deleted = Deleted(self.core, settings.vhost)
        self.alarm: str | None = None
        """What the server is short of; no client may send then."""
        self.regions = {settings.region: self}
        """The account in each region, if their queues are apart; this one is that of the default region."""
        for other in settings.other_regions:
            in_thread = None if everywhere is None else everywhere.regions[other]
            self.regions[other] = Account(runtime, access, async_broker, settings.in_region(other), in_thread, other)

    def of(self, request: Request, forwarded: bool) -> Account:
        """The account in the region that a request is for, of several; a node that forwards one names the region."""
        region = request.header(FORWARDED) if forwarded else region_of(request, self.regions, self.settings.region)
        found = self.regions.get(region)
        if found is None:
            raise WrongRegion(region)
        vhost = found.settings.vhost
        if vhost not in self.core.topology.vhosts:
            raise SqsError(
                "UnsupportedOperation",
                f"Region {region} has no queues: its virtual host '{vhost}' does not exist. Create it, and permit the "
                "user to use it.",
            )
        return found

    def set_alarm(self, reason: str | None) -> None:
        """Refuse sends in all regions for a reason, or take them again."""
        for each in self.regions.values():
            each.alarm = reason

    def hear(self, row: dict[str, Any]) -> None:
        for each in self.regions.values():
            each.queues.heard(row)

    def close(self) -> None:
        for each in self.regions.values():
            each.tasks.close()

    def now_ms(self) -> int:
        return self.runtime.clock.now_ms()

    def note_deleted(self, name: str) -> None:
        """A queue was deleted: its name is not for use for a minute. In a cluster that is for its catalog to know."""
        if self.settings.guards and self.everywhere is self.queues:
            self.deleted.note(name)


class ReceiveAttempt(NamedTuple):
    """What a receive got."""

    until_ms: int
    messages: list[Message]


class ReceiveAttempts:
    """Attempts by the queue and the id that its receiver chose."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, str], ReceiveAttempt] = OrderedDict()

    def remember(self, queue_id: int, attempt_id: str, messages: list[Message], now_ms: int) -> None:
        self._kept[queue_id, attempt_id] = ReceiveAttempt(now_ms + KEPT_MS, messages)
        while len(self._kept) > KEPT_MAX or next(iter(self._kept.values())).until_ms <= now_ms:
            self._kept.popitem(last=False)

    def repeat(self, queue_id: int, attempt_id: str, now_ms: int) -> list[Message]:
        """What the same attempt got before, if nothing of it has changed since; otherwise nothing."""
        kept = self._kept.pop((queue_id, attempt_id), None)
        if kept is None or kept.until_ms <= now_ms or not all(message.leased for message in kept.messages):
            return []
        return kept.messages


class Deleted:
    """Those of one virtual host; used under the lock."""

    def __init__(self, core: CoreBroker, vhost: str) -> None:
        self._core = core
        self._vhost = vhost
        self._noted = 0

    def note(self, name: str) -> None:
        self._core.define(Kind.DELETED_QUEUE, {**self._key(name), "deleted_ms": self._core.now_ms})
        self._noted += 1
        if self._noted % SWEEP_EVERY == 0:
            self._sweep()

    def has(self, name: str) -> bool:
        """Whether a queue of that name was deleted within the last minute."""
        row = self._core.catalog.get(Kind.DELETED_QUEUE, **self._key(name))
        return row is not None and self._is_recent(row["deleted_ms"])

    def _key(self, name: str) -> dict[str, str]:
        return {"vhost": self._vhost, "name": name}

    def _is_recent(self, deleted_ms: int) -> bool:
        # Also if the clock of another node is ahead: then for at most another minute.
        return abs(self._core.now_ms - deleted_ms) < RECREATE_MS

    def _sweep(self) -> None:
        """Forget those of which a queue can be made again."""
        for row in list(self._core.catalog.of(Kind.DELETED_QUEUE)):
            if not self._is_recent(row["deleted_ms"]):
                self._core.undefine(Kind.DELETED_QUEUE, {"vhost": row["vhost"], "name": row["name"]})
