"""How the broker is."""

from contextlib import suppress
from typing import Any

from leveret.core.broker import Broker
from leveret.core.errors import BrokerClosed, JournalFailed
from leveret.runtime.stats import broker_stats
from leveret.server.administration.context import Site, Verb

FIGURES = ("queues", "ready", "leased", "scheduled")


def status(site: Site) -> dict[str, Any]:
    """What is running, and how much is in it."""
    return {
        **site.facts(),
        "vhosts": len(site.core.topology.vhosts),
        "users": len(site.access.users),
        **_totals(site),
    }


def _totals(site: Site) -> dict[str, int]:
    """What is in all queues: of a node, in those of its shards."""
    if site.shards is None:
        return _figures(site.core)
    found = dict.fromkeys(FIGURES, 0)
    for guard in site.shards():
        with suppress(BrokerClosed, JournalFailed), guard as core:
            found = {name: found[name] + value for name, value in _figures(core).items()}
    return found


def _figures(core: Broker) -> dict[str, int]:
    totals = broker_stats(core)
    return {name: getattr(totals, name) for name in FIGURES}


VERBS: dict[str, Verb] = {"status": status}
