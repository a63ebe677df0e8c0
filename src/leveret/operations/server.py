"""The server as a whole: how it is, its audit log, and the cluster that it is a node of.

What is about nodes gives something to wait for: it runs without the lock and without the catalog, since the status of a
cluster is asked for when these are in trouble.
"""

from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated, Any

from leveret.core.broker import Broker
from leveret.core.errors import BrokerClosed, InvalidArgument, JournalFailed, PreconditionFailed
from leveret.observability.alerting.payloads import time_of
from leveret.observability.audit import ENTRIES_MAX, KINDS, Audit, Kind
from leveret.operations.context import ClusterVerbs, OperationContext
from leveret.operations.operation import ADMINISTERED, MANAGED, MONITORED, changes, looks
from leveret.runtime.stats import broker_stats

FIGURES = ("queues", "ready", "leased", "scheduled")
ROWS = 100  # of the audit log that are listed unless others are asked for
OWN = frozenset(("at_ms", "kind", "by", "act", "outcome", "peer", "count"))


def status(context: OperationContext) -> dict[str, Any]:
    """Show how much is in the broker."""
    return {
        **context.facts(),
        "vhosts": len(context.core.topology.vhosts),
        "users": len(context.access.users),
        **_totals(context),
        **({} if context.alerts is None else {"firing_alerts": sum(context.alerts.firing_counts().values())}),
    }


def _totals(context: OperationContext) -> dict[str, int]:
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


# The audit log


def list_audit(
    context: OperationContext,
    limit: Annotated[int, "how many; default: 100"] = ROWS,
    kind: Annotated[Kind | None, "only rows of this kind"] = None,
) -> list[dict[str, Any]]:
    """List who changed what, the newest first."""
    chosen = next((each for each in KINDS if each == kind), None)
    if kind is not None and chosen is None:
        raise InvalidArgument(f"the kinds of rows are {', '.join(KINDS)}, not {kind!r}")
    rows = _log_of(context).recent(max(0, min(limit, ENTRIES_MAX)), chosen)
    return [
        {
            **row,
            "at": time_of(row["at_ms"]),
            "peer": row.get("peer"),
            "count": row.get("count"),
            "about": " ".join(f"{name}={value}" for name, value in row.items() if name not in OWN),
        }
        for row in rows
    ]


def audit_heads(context: OperationContext) -> dict[str, Any]:
    """Show the last line of each audit log that is in its file."""
    return {kind: asdict(head) for kind, head in _log_of(context).heads().items()}


def _log_of(context: OperationContext) -> Audit:
    if context.audit is None:
        raise PreconditionFailed("there is no audit log here: ask the server")
    return context.audit


# The cluster


def joined(context: OperationContext) -> ClusterVerbs:
    """The cluster of a running node."""
    if context.cluster is None:
        raise PreconditionFailed("this is no running node of a cluster: name the data directory of one by --data")
    return context.cluster


def cluster_status(context: OperationContext) -> Awaitable[dict[str, Any]]:
    """Show nodes and shards."""
    return joined(context).status()


def examine(context: OperationContext) -> Awaitable[dict[str, Any]]:
    """Show nodes and shards, and how the nodes were set up."""
    return joined(context).examine()


def drain(
    context: OperationContext, stay: Annotated[bool, "do not stop it: it serves clients without shards"] = False
) -> Awaitable[dict[str, Any]]:
    """Give the shards of a node to others, then stop it."""
    return joined(context).drain(stay)


def rebalance(context: OperationContext) -> Awaitable[dict[str, Any]]:
    """Move shards to the nodes that should have them, now."""
    return joined(context).rebalance()


def add_shard_group(
    context: OperationContext,
    url: Annotated[str, "of a PostgreSQL database that is empty, without a password"],
    shards: Annotated[int | None, "how many go there; default: its fair share"] = None,
) -> Awaitable[dict[str, Any]]:
    """Add a database, and move shards there."""
    if shards is not None and shards < 0:
        raise InvalidArgument(f"{shards} shards cannot be moved: give 0 or more")
    return joined(context).add_shard_group(url, shards)


def move_shard(
    context: OperationContext,
    shard: Annotated[int, "the number of the shard"],
    group: Annotated[int, "the number of its new group"],
) -> Awaitable[dict[str, Any]]:
    """Move one shard to another database."""
    return joined(context).move_shard(shard, group)


def move_catalog(
    context: OperationContext, group: Annotated[int, "the number of the group that gets the definitions"]
) -> Awaitable[dict[str, Any]]:
    """Move the definitions to another database."""
    return joined(context).move_catalog(group)


def remove_shard_group(
    context: OperationContext,
    group: Annotated[int, "the number of a group that has neither shards nor the definitions"],
) -> Awaitable[dict[str, Any]]:
    """Forget a database that has nothing any more."""
    return joined(context).remove_shard_group(group)


def adopt(context: OperationContext) -> Awaitable[dict[str, Any]]:
    """Let definitions that are older than shards have what these have."""
    return joined(context).settle(discard=False)


def discard(context: OperationContext) -> Awaitable[dict[str, Any]]:
    """Let shards lose what older definitions do not know."""
    return joined(context).settle(discard=True)


OPERATIONS = (
    *looks("node", ADMINISTERED, {"status": status, "audit.heads": audit_heads}),
    *looks("nodes", ADMINISTERED, {"audit.list": list_audit}),
    *looks("node", MONITORED, {"cluster.status": cluster_status}),
    *looks("node", ADMINISTERED, {"cluster.examine": examine}),
    *changes(
        "node",
        ADMINISTERED,
        {
            "cluster.drain": drain,
            "cluster.rebalance": rebalance,
            "cluster.add-shard-group": add_shard_group,
            "cluster.move-shard": move_shard,
            "cluster.move-catalog": move_catalog,
            "cluster.remove-shard-group": remove_shard_group,
            "cluster.adopt": adopt,
            "cluster.discard": discard,
        },
    ),
    *looks("nodes", MANAGED, ("overview.look",)),
    *looks("node", MANAGED, ("extensions.list",)),
    *looks("catalog", MANAGED, ("cluster-name.look",)),
    *changes("catalog", ADMINISTERED, ("cluster-name.set",)),
    *looks("nodes", MONITORED, ("nodes.list", "reports.list", "reports.look")),
    *looks("node", MONITORED, ("nodes.look",)),
    *looks("node", ADMINISTERED, ("feature-flags.list", "deprecated-features.list")),
    *changes("node", ADMINISTERED, ("feature-flags.enable",)),
)
