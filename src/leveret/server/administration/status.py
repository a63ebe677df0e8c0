"""How the broker is."""

from typing import Any

from leveret.embedded.stats import broker_stats
from leveret.server.administration.site import Site, Verb


def status(site: Site) -> dict[str, Any]:
    """What is running, and how much is in it."""
    totals = broker_stats(site.core)
    return {
        **site.facts(),
        "vhosts": len(site.core.topology.vhosts),
        "users": len(site.access.users),
        "queues": totals.queues,
        "ready": totals.ready,
        "leased": totals.leased,
        "scheduled": totals.scheduled,
    }


VERBS: dict[str, Verb] = {"status": status}
