"""Figures of nodes, added up to those of the cluster."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from leveret.protocols.http.router import Answer
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.cluster.asking import Told, ask_nodes, marked, nodes_of, request_like
from leveret.protocols.management.context import Row
from leveret.protocols.management.listing import RANGES, listed, one
from leveret.protocols.management.rates import DEPTHS
from leveret.protocols.management.refusals import Missing

SUMMED = ("message_stats", "queue_totals")
OF_NODES = ("connections", "channels", "consumers")
"""What each node has its own of; queues and exchanges are those of the cluster on every one."""
OF_VHOST = (*DEPTHS, *(f"{name}_details" for name in DEPTHS), "message_stats")


def added(one: Any, other: Any) -> Any:
    """The sum of two figures, or of all that are in two objects; samples are added from the newest on."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {
            name: added(one[name], other[name]) if name in one and name in other else {**other, **one}[name]
            for name in {**one, **other}
        }
    if isinstance(one, list) and isinstance(other, list):
        pairs = zip_longest(one, other)
        return [_sample(here, there) if here and there else here or there for here, there in pairs]
    return one + other


def _sample(one: Row, other: Row) -> Row:
    """Two samples of about the same time."""
    return {"sample": one["sample"] + other["sample"], "timestamp": one["timestamp"]}


async def look_at_all(call: ManagementCall) -> Answer:
    """The whole cluster, as far as the user sees it."""
    wanted = {f"{name}_{end}" for name in RANGES for end in ("age", "incr")}
    ranges = "&".join(f"{name}={value}" for name, value in call.request.query.items() if name in wanted)
    told = await ask_nodes(call, request_like(call, f"/api/overview?{ranges}".encode()))
    if told.refusal is not None:
        return told.refusal
    found: Row = told.by.pop(nodes_of(call).name)
    for each in told.by.values():
        found |= {name: added(found[name], each[name]) for name in SUMMED}
        found["churn_rates"] = {
            name: value if name.startswith("queue") else added(value, each["churn_rates"][name])
            for name, value in found["churn_rates"].items()
        }
        own, others = found["object_totals"], each["object_totals"]
        own |= {name: own[name] + others[name] for name in OF_NODES}
        found |= {name: [*found[name], *each[name]] for name in ("listeners", "contexts")}
    return await marked(one(call, found), told.unanswered)


# Virtual hosts


async def list_vhosts(call: ManagementCall) -> Answer:
    """Those that the user sees."""
    told = await ask_nodes(call, request_like(call, b"/api/vhosts"))
    if told.refusal is not None:
        return told.refusal
    return await marked(listed(call, _vhosts(call, told)), told.unanswered)


async def look_at_vhost(call: ManagementCall) -> Answer:
    """One virtual host."""
    told = await ask_nodes(call, request_like(call, call.request.raw_path))
    if told.refusal is not None:
        return told.refusal
    rows = _vhosts(call, Told({name: [row] for name, row in told.by.items()}, [], None))
    if not rows:
        raise Missing()
    return await marked(one(call, rows[0]), told.unanswered)


def _vhosts(call: ManagementCall, told: Told) -> list[Row]:
    """The rows of this node, with the figures of all."""
    own = nodes_of(call).name
    found = {row["name"]: row for row in told.by.pop(own, [])}
    for rows in told.by.values():
        for row in rows:
            known = found.get(row["name"])
            if known is not None:
                known |= {name: added(known[name], row[name]) for name in OF_VHOST}
                known["cluster_state"] |= row["cluster_state"]
    return list(found.values())
