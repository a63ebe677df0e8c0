"""Figures of the connections to PostgreSQL; nothing is said where there is none."""

from collections.abc import Callable

from leveret.observability.exposition import Kind
from leveret.protocols.metrics.facts import ScrapeFacts
from leveret.protocols.metrics.figure import BrokerMetric, figure
from leveret.runtime.stats import POSTGRES


def _figure(name: str, kind: Kind, help: str, of: Callable[[], int]) -> BrokerMetric:
    def told(facts: ScrapeFacts) -> int | None:
        return of() if POSTGRES.used else None

    return figure(f"leveret_postgres_{name}", kind, help, told)


CONNECTIONS: tuple[BrokerMetric, ...] = (
    _figure(
        "connections", "gauge", "Connections to PostgreSQL; no sample without a store there", lambda: POSTGRES.open
    ),
    _figure("connections_in_use", "gauge", "Those with a statement under way", lambda: POSTGRES.in_use),
    _figure(
        "waits_total", "counter", "Statements that waited for another one on their connection", lambda: POSTGRES.waits
    ),
    _figure("reconnects_total", "counter", "Connections that replaced a lost one", lambda: POSTGRES.reconnects),
    _figure("errors_total", "counter", "Errors of PostgreSQL, or of the way to it", lambda: POSTGRES.errors),
)
