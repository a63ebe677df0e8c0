"""What all requests of the port for SQS share: the broker, its queues, who may do what."""

from __future__ import annotations

from leveret.embedded.broker import Broker
from leveret.http.desk import Desk
from leveret.http.sqs.attempts import Attempts
from leveret.http.sqs.deleted import Deleted
from leveret.http.sqs.move_tasks import MoveTasks
from leveret.http.sqs.queues import Queues
from leveret.http.sqs.settings import Settings
from leveret.security.access import Access
from leveret.security.authorisation import Decisions


class Account:
    """One for all requests; to be used in the thread of the loop."""

    def __init__(
        self, broker: Broker, access: Access, desk: Desk, settings: Settings, everywhere: Queues | None = None
    ) -> None:
        """Take up what a restart has interrupted; `everywhere` are the queues of all brokers, if there are others."""
        self.settings = settings
        self.access = access
        self.desk = desk
        self.guard = broker.guard
        self.core = broker.guard.core
        self.receipts = broker.receipts
        self.tag = broker.guard.core.tag
        self.queues = Queues(broker, settings)
        self.everywhere = everywhere or self.queues
        self.attempts = Attempts()
        self.decisions = Decisions()
        self.tasks = MoveTasks(self.guard, self.everywhere, desk)
        self.deleted = Deleted(self.core, settings.vhost)
        self.alarm: str | None = None
        """What the server is short of; no client may send then."""

    def now_ms(self) -> int:
        """The time."""
        return self.guard.clock.now_ms()

    def note_deleted(self, name: str) -> None:
        """A queue was deleted: its name is not for use for a minute. In a cluster that is for its catalog to know."""
        if self.settings.guards and self.everywhere is self.queues:
            self.deleted.note(name)
