"""What each node keeps for itself, as one list: alerts, what happened to them, who could be told, reports."""

from __future__ import annotations

from leveret.protocols.http.router import Answer
from leveret.protocols.management import alerts
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.cluster.asking import Told, ask_nodes, marked, nodes_of, request_like
from leveret.protocols.management.cluster.clients import first_found
from leveret.protocols.management.context import Row
from leveret.protocols.management.listing import listed
from leveret.protocols.management.refusals import Missing, answer


def _placed(told: Told) -> list[Row]:
    """The rows of all nodes, each with its own."""
    return [{**row, "node": name} for name, rows in sorted(told.by.items()) for row in rows]


# Alerts


async def list_alerts(call: ManagementCall) -> Answer:
    """What is wrong with queues, each as its owner sees it."""
    told = await ask_nodes(call, request_like(call, call.request.raw_path))
    if told.refusal is not None:
        return told.refusal
    return await marked(listed(call, _placed(told), name=lambda row: str(row["queue"])), told.unanswered)


async def list_events(call: ManagementCall) -> Answer:
    """What happened to alerts lately on all nodes, the newest first."""
    told = await ask_nodes(call)
    if told.refusal is not None:
        return told.refusal
    limit = call.number("limit")
    rows = sorted(_placed(told), key=lambda row: -row["at_ms"])
    return await marked(answer(rows[: alerts.EVENTS if limit is None else limit]), told.unanswered)


async def list_receivers(call: ManagementCall) -> Answer:
    """Receivers: what waits for each on all nodes, and why one of them could not reach it."""
    told = await ask_nodes(call, request_like(call, call.request.raw_path))
    if told.refusal is not None:
        return told.refusal
    found: dict[str, Row] = {}
    for row in _placed(told):
        node, problem = row.pop("node"), row["problem"]
        known = found.setdefault(row["name"], {**row, "waiting": 0, "problem": None})
        known["waiting"] += row["waiting"]
        known["problem"] = known["problem"] or (problem and f"node {node}: {problem}")
    return await marked(listed(call, list(found.values())), told.unanswered)


# Reports


async def list_reports(call: ManagementCall) -> Answer:
    """All reports, the newest first; one in a directory that nodes share is listed once."""
    told = await ask_nodes(call, request_like(call, call.request.raw_path))
    if told.refusal is not None:
        return told.refusal
    found: dict[tuple[str, int], Row] = {}
    for row in sorted(_placed(told), key=lambda row: -row["made_at"]):
        found.setdefault((row["name"], row["made_at"]), row)
    return await marked(listed(call, list(found.values())), told.unanswered)


async def look_at_report(call: ManagementCall) -> Answer:
    """A report of the node that the query names, or of the first that has it."""
    name = call.request.query.get("node")
    if name is None:
        return await first_found(call)
    if name not in nodes_of(call).names:
        raise Missing()
    return await nodes_of(call).ask_node(name, call.request)
