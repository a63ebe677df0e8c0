"""What the management API works on: the broker, who may use it, its clients, and the facts of the process.

Clients and definitions belong to parts that HTTP does not import; the start of the server joins them here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from leveret.core.histogram import Histogram
from leveret.core.names import INTERNAL_VHOST
from leveret.core.queue import Queue
from leveret.core.tally import Tally
from leveret.observability.alerting.service import Alerting
from leveret.observability.audit import Audit
from leveret.operations.context import OperationContext
from leveret.protocols.http.async_broker import AsyncBroker
from leveret.protocols.http.cluster import Cluster
from leveret.protocols.http.response import Answered
from leveret.protocols.management.rates import Rates
from leveret.protocols.net.admission import ConnectionBudget
from leveret.runtime.runtime import Runtime
from leveret.security.access import Access

if TYPE_CHECKING:
    from leveret.protocols.management.reports import Reports

Row = dict[str, Any]

PRODUCT = "Leveret"
API_VERSION = "3.13.7"
"""The RabbitMQ whose API this is, for tools that look at its version before they use it."""


class Departed:
    """The counters of shards that are gone; nothing on a single server."""

    def __init__(self) -> None:
        self.tallies: defaultdict[str, Tally] = defaultdict(Tally)
        self.sync_us = Histogram()
        self.commit_us = Histogram()
        self.batch_entries = Histogram()
        self.written_bytes = 0
        self.history_dropped = self.events_dropped = 0

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
            self.commit_us.add(runtime.store.commit.commit_us)
            self.batch_entries.add(runtime.store.batch_entries)
            self.written_bytes += runtime.store.bytes_written
            self.history_dropped += runtime.store.history.figures.dropped
            self.events_dropped += runtime.store.journal.events.dropped


class ClientEntry(Protocol):
    """A connection, a channel or a consumer; a channel is owned by its connection, a consumer by its channel."""

    @property
    def name(self) -> str: ...  # of a consumer, its tag
    @property
    def user(self) -> str: ...
    @property
    def vhost(self) -> str: ...
    @property
    def owner(self) -> str: ...
    @property
    def row(self) -> Callable[[], Row]: ...  # tells all about it


class Clients(Protocol):
    """The connections of AMQP, in RabbitMQ's words; called under the lock of the broker."""

    def connections(self) -> Sequence[ClientEntry]: ...
    def channels(self) -> Sequence[ClientEntry]: ...
    def consumers(self) -> Sequence[ClientEntry]: ...
    def consumers_of(self, queue: Queue) -> list[Row]: ...

    def holder(self, consumer: object) -> Row | None: ...  # who a consumer of the core is; None: none of these
    def counts(self) -> dict[str, int]: ...  # how many there are of each
    def churn(self) -> dict[str, int]: ...  # how many connections and channels have come and gone
    def traffic(self) -> dict[str, int]: ...  # what all channels have done, those too that are closed
    def close(self, name: str, reason: str) -> bool: ...  # ask a client to go; False when there is no such connection


class ClusterOperations(Protocol):
    """The cluster that a node is in, for its operators."""

    @property
    def draining(self) -> bool: ...  # whether this node gives its shards away
    @property
    def links(self) -> Sequence[str]: ...  # the nodes within reach
    @property
    def successors(self) -> Sequence[str]: ...  # the nodes within reach that would take its shards
    async def status(self) -> Row: ...  # who is there, and who has which shard
    async def drain(self, stay: bool = False) -> Row:
        """Give all shards of the node to others, then stop it unless it is to stay."""

    async def rebalance(self) -> Row: ...  # let shards go to the nodes that should have them
    def figures(self) -> dict[str, Any]: ...  # what scrapes tell of the part that this node has in it


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
    lists_end_ms: Callable[[], Mapping[str, int]] = dict
    """When revocation lists of certificates expire, by what they are about."""
    budgets: Sequence[ConnectionBudget] = ()
    """Of connections, for each protocol."""
    cluster: str = "leveret"
    """What the cluster is called unless it is named otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminContext:
    """Everything that endpoints use."""

    async_broker: AsyncBroker
    operations: OperationContext
    """What the handlers of operations work on; on a node, the catalog."""
    clients: Clients
    process: Process
    rates: Rates
    reports: Reports
    shard: int | None = None
    """Of a site that is one shard of a cluster."""
    cluster: ClusterOperations | None = None
    """Of a node; its broker has the definitions of the whole cluster, and no messages."""
    shards: Callable[[], Sequence[Runtime]] | None = None
    """Those that a node has now."""
    departed: Departed = field(default_factory=Departed)
    nodes: Cluster | None = None
    """The cluster of a node."""
    dispatch: Callable[[Any, Any], Answered] = lambda route, call: route.ask(call)
    """Runs the endpoint of a route: here, or on a node where the scope of its operation says."""

    @property
    def access(self) -> Access:
        return self.operations.access

    @property
    def audit(self) -> Audit:
        assert self.operations.audit is not None, "a server has one"
        return self.operations.audit

    @property
    def alerts(self) -> Alerting:
        """What looks at queues."""
        assert self.operations.alerts is not None, "a server has them"
        return self.operations.alerts

    @property
    def runtimes(self) -> Sequence[Runtime]:
        """The brokers with the messages that are here: the one, or those of the shards of a node."""
        return (self.async_broker.runtime,) if self.shards is None else self.shards()
