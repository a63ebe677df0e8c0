"""What all requests of the port for SQS share: the broker, its queues, who may do what."""

from __future__ import annotations

from typing import Any

from leveret.embedded.broker import Broker
from leveret.protocols.http.async_broker import AsyncBroker
from leveret.protocols.http.request import Request
from leveret.protocols.sqs.attempts import ReceiveAttempts
from leveret.protocols.sqs.deleted import Deleted
from leveret.protocols.sqs.errors import SqsError
from leveret.protocols.sqs.move_tasks import DEFAULT_REGION, MoveTasks
from leveret.protocols.sqs.queues import Queues
from leveret.protocols.sqs.regions import FORWARDED, WrongRegion, region_of
from leveret.protocols.sqs.settings import Settings
from leveret.security.access import Access
from leveret.security.authorisation import Decisions


class Account:
    """One for all requests; to be used in the thread of the loop."""

    def __init__(
        self,
        broker: Broker,
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
        self.runtime = broker.runtime
        self.core = broker.runtime.core
        self.receipts = broker.receipts
        self.tag = broker.runtime.core.tag
        self.queues = Queues(broker, settings)
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
            self.regions[other] = Account(broker, access, async_broker, settings.in_region(other), in_thread, other)

    def of(self, request: Request, forwarded: bool) -> Account:
        """The account in the region that a request is for; a node that forwards a request names the region."""
        if len(self.regions) == 1:
            return self
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
        """Take in what another node changed about a queue."""
        for each in self.regions.values():
            each.queues.heard(row)

    def close(self) -> None:
        """Interrupt the move tasks of all regions."""
        for each in self.regions.values():
            each.tasks.close()

    def now_ms(self) -> int:
        """The time."""
        return self.runtime.clock.now_ms()

    def note_deleted(self, name: str) -> None:
        """A queue was deleted: its name is not for use for a minute. In a cluster that is for its catalog to know."""
        if self.settings.guards and self.everywhere is self.queues:
            self.deleted.note(name)
