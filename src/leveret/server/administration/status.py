"""How the broker is."""

from contextlib import suppress
from typing import Any

from leveret.core.broker import Broker
from leveret.core.errors import BrokerClosed, JournalFailed
from leveret.runtime.stats import broker_stats
from leveret.server.administration.context import Verb, VerbContext

FIGURES = ("queues", "ready", "leased", "scheduled")


def status(context: VerbContext) -> dict[str, Any]:
    """What is running, and how much is in it."""
    return {
        **context.facts(),
        "vhosts": len(context.core.topology.vhosts),
        "users": len(context.access.users),
        **_totals(context),
    }


def _totals(context: VerbContext) -> dict[str, int]:
    """What is in all queues: of a node, in those of its shards."""
    if context.shards is None:
        return _figures(context.core)
    found = dict.fromkeys(FIGURES, 0)
    for runtime in context.shards():
        with suppress(BrokerClosed, JournalFailed), runtime as core:
            found = {name: found[name] + value for name, value in _figures(core).items()}
    return found


def _figures(core: Broker) -> dict[str, int]:
    totals = broker_stats(core)
    return {name: getattr(totals, name) for name in FIGURES}


VERBS: dict[str, Verb] = {"status": status}
