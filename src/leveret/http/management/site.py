"""What the management API works on: the broker, who may use it, its clients, and the facts of the process.

Clients and definitions belong to parts that HTTP does not import; whoever starts the server joins them here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from leveret.alerting.service import Alerting
from leveret.core.queue import Queue
from leveret.http.desk import Desk
from leveret.http.management.rates import Rates
from leveret.http.reports import Reports
from leveret.security.access import Access
from leveret.telemetry.audit import Audit

if TYPE_CHECKING:
    from leveret.shared.redis import Redis

Row = dict[str, Any]

PRODUCT = "Leveret"
API_VERSION = "3.13.7"
"""The RabbitMQ whose API this is, for tools that look at its version before they use it."""


class Entry(Protocol):
    """A connection, a channel or a consumer."""

    @property
    def name(self) -> str:
        """What it is called; of a consumer, its tag."""

    @property
    def user(self) -> str:
        """Whose it is."""

    @property
    def vhost(self) -> str:
        """Where it is."""

    @property
    def owner(self) -> str:
        """The name of the connection of a channel, or of the channel of a consumer."""

    @property
    def row(self) -> Callable[[], Row]:
        """Tells all about it."""


class Clients(Protocol):
    """The connections of AMQP, in RabbitMQ's words; called under the lock of the broker."""

    def connections(self) -> Sequence[Entry]:
        """Every connection that is open."""

    def channels(self) -> Sequence[Entry]:
        """Every channel of them."""

    def consumers(self) -> Sequence[Entry]:
        """Every consumer on those."""

    def consumers_of(self, queue: Queue) -> list[Row]:
        """The consumers of a queue."""

    def holder(self, consumer: object) -> Row | None:
        """Who a consumer of the core is; None: nobody of ours."""

    def counts(self) -> dict[str, int]:
        """How many there are of each."""

    def churn(self) -> dict[str, int]:
        """How many connections and channels have come and gone."""

    def traffic(self) -> dict[str, int]:
        """What all channels have done, those too that are closed."""

    def close(self, name: str, reason: str) -> bool:
        """Ask a client to go; False when there is no such connection."""


class Definitions(Protocol):
    """Files of definitions, a section at a time; called under the lock of the broker."""

    def give_out(self, section: str) -> Iterable[Row]:
        """The objects of a section."""

    def take_in(self, section: str, objects: list[Any], vhost: str) -> list[str]:
        """Add objects; why some were left out."""


class Listening(NamedTuple):
    """An address that the server listens on."""

    protocol: str
    host: str
    port: int
    tls: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """Facts of the process that the broker cannot know."""

    node: str
    version: str
    data: str
    pid: int
    started_ms: int
    memory_bytes_max: int
    free_bytes_min: int
    files_max: int
    memory_bytes: Callable[[], int]
    free_bytes: Callable[[], int]
    alarm: Callable[[], str | None]
    listening: Callable[[], list[Listening]]
    certificate_ends_ms: Callable[[], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Everything that endpoints use."""

    desk: Desk
    access: Access
    clients: Clients
    definitions: Definitions
    process: Process
    rates: Rates
    audit: Audit
    reports: Reports
    alerts: Alerting
    redis: Redis | None = None
