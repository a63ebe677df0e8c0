"""How endpoints make one answer of those of all nodes, or of several shards: a function beside each in routes.py."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from heapq import nsmallest
from itertools import zip_longest
from typing import Any
from urllib.parse import unquote

from leveret.core.broker import Broker
from leveret.core.changes import DeleteQueue
from leveret.core.deadletter import dead_letter_queues
from leveret.core.errors import Unreachable
from leveret.protocols.http.cluster import InCluster, Parts, marked
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Answer, Answered, Response
from leveret.protocols.management import alerts, dead_letters, messages
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.context import Row
from leveret.protocols.management.health import IN_CLUSTER, failed, ok
from leveret.protocols.management.listing import listed, named, one
from leveret.protocols.management.rates import DEPTHS
from leveret.protocols.management.refusals import Missing, answer

REFUSED = 400
SUMMED = ("message_stats", "queue_totals")
OF_NODES = ("connections", "channels", "consumers")
"""What each node has its own of; queues and exchanges are those of the cluster on every node."""
OF_VHOST = (*DEPTHS, *(f"{name}_details" for name in DEPTHS), "message_stats")

Merged = Answered


# Lists


def list_by(name: Callable[[Row], str]) -> InCluster:
    """Lists are joined, then filtered by a name, sorted and cut."""

    def merge(call: ManagementCall, parts: Parts) -> Merged:
        return listed(call, [row for rows in parts.values.values() for row in rows], name=name)

    return InCluster(merge=merge)


def with_nodes(parts: Parts) -> list[Row]:
    """The rows of all nodes, each with its node."""
    return [{**row, "node": name} for name, rows in sorted(parts.values.items()) for row in rows]


def merge_nodes(call: ManagementCall, parts: Parts) -> Merged:
    """A node that does not answer is shown as down."""
    rows = [row for rows in parts.values.values() for row in rows] + [_down(name) for name in parts.missing]
    return listed(call, sorted(rows, key=named))


def show_down(call: ManagementCall, parts: Parts) -> Answer:
    """A node that does not answer."""
    return one(call, _down(parts.missing[0]))


def _down(name: str) -> Row:
    return {"name": name, "type": "disc", "running": False}


def merge_alerts(call: ManagementCall, parts: Parts) -> Merged:
    """Alerts, each as the owner of its queue sees it."""
    return listed(call, with_nodes(parts), name=lambda row: str(row["queue"]))


def merge_events(call: ManagementCall, parts: Parts) -> Answer:
    """What happened to alerts lately, the newest first."""
    limit = call.number("limit")
    rows = sorted(with_nodes(parts), key=lambda row: -row["at_ms"])
    return answer(rows[: alerts.EVENTS if limit is None else limit])


def merge_receivers(call: ManagementCall, parts: Parts) -> Merged:
    """Receivers: what waits for each on all nodes, and why one of these could not reach it."""
    found: dict[str, Row] = {}
    for row in with_nodes(parts):
        node, problem = row.pop("node"), row["problem"]
        known = found.setdefault(row["name"], {**row, "waiting": 0, "problem": None})
        known["waiting"] += row["waiting"]
        known["problem"] = known["problem"] or (problem and f"node {node}: {problem}")
    return listed(call, list(found.values()))


def merge_reports(call: ManagementCall, parts: Parts) -> Merged:
    """Reports, the newest first; one in a directory that nodes share is listed once."""
    found: dict[tuple[str, int], Row] = {}
    for row in sorted(with_nodes(parts), key=lambda row: -row["made_at"]):
        found.setdefault((row["name"], row["made_at"]), row)
    return listed(call, list(found.values()))


# One answer of all


def first_found(call: ManagementCall, parts: Parts) -> Answer:
    """The answer of the node that has what the path names; if none does, the refusal of this one."""
    answers = parts.answers
    found = next((each for each in answers.values() if each.status < REFUSED), None)
    found = found or answers.get(call.context.process.node)
    if found is None:
        raise Missing()
    return marked(found, parts.missing if found.status >= REFUSED else ())


def own(call: ManagementCall, parts: Parts) -> Answer:
    """The answer of this node; all do the same."""
    return marked(parts.answers[call.context.process.node], parts.missing)


def find_report(call: ManagementCall, parts: Parts) -> Answer:
    """A report of the node that the query names, or of the first that has it."""
    name = call.request.query.get("node")
    if name is None:
        return first_found(call, parts)
    if name in parts.missing:
        raise Unreachable(f"node '{name}' did not answer: try again")
    if name not in parts.answers:
        raise Missing()
    return parts.answers[name]


async def find_channel(call: ManagementCall, parts: Parts) -> Answer:
    """One channel, with its consumers, which are in the shards of their queues."""
    found = first_found(call, parts)
    if found.status >= REFUSED:
        return found
    assert isinstance(found, Response), "a channel comes at once"
    nodes, request = call.nodes, Request("GET", b"/api/consumers", {}, call.request.peer)
    request.identity = call.request.identity
    shards = await nodes.ask_shards(dict.fromkeys(nodes.shard_ids(), request))
    consumers = [row for rows in shards.values.values() for row in rows]
    wanted = unquote(call.named("channel"))
    details = [each for each in consumers if each["channel_details"]["name"] == wanted]
    return marked(one(call, {**json.loads(found.body), "consumer_details": details}), shards.missing)


def merge_alarms(call: ManagementCall, parts: Parts) -> Answer:
    """Whether every node that answers has enough memory and disk."""
    answers = [json.loads(each.body) for each in parts.answers.values() if isinstance(each, Response)]
    found = [row for each in answers for row in each.get("alarms", [])]
    return failed(IN_CLUSTER, alarms=found) if found else ok()


# Sums


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
    return {"sample": one["sample"] + other["sample"], "timestamp": one["timestamp"]}


def merge_overview(call: ManagementCall, parts: Parts) -> Answer:
    """The whole cluster, as far as the user sees it."""
    found: Row = parts.values.pop(call.context.process.node)
    for each in parts.values.values():
        found |= {name: added(found[name], each[name]) for name in SUMMED}
        found["churn_rates"] = {
            name: value if name.startswith("queue") else added(value, each["churn_rates"][name])
            for name, value in found["churn_rates"].items()
        }
        totals, others = found["object_totals"], each["object_totals"]
        totals |= {name: totals[name] + others[name] for name in OF_NODES}
        found |= {name: [*found[name], *each[name]] for name in ("listeners", "contexts")}
    return one(call, found)


def merge_vhosts(call: ManagementCall, parts: Parts) -> Merged:
    """The virtual hosts of this node, with the figures of all."""
    return listed(call, _vhosts(call, parts.values))


def merge_vhost(call: ManagementCall, parts: Parts) -> Answer:
    """One virtual host."""
    rows = _vhosts(call, {name: [row] for name, row in parts.values.items()})
    if not rows:
        raise Missing()
    return one(call, rows[0])


def _vhosts(call: ManagementCall, by_node: dict[str, list[Row]]) -> list[Row]:
    found = {row["name"]: row for row in by_node.pop(call.context.process.node, [])}
    for rows in by_node.values():
        for row in rows:
            known = found.get(row["name"])
            if known is not None:
                known |= {name: added(known[name], row[name]) for name in OF_VHOST}
                known["cluster_state"] |= row["cluster_state"]
    return list(found.values())


# Queues and messages


def forgotten(call: ManagementCall) -> Callable[[Broker], Any]:
    """Deletes a queue from the catalog after its shard, which knows whether it may be deleted."""
    return DeleteQueue(call.named("vhost"), call.named("queue")).apply


async def with_owner(call: ManagementCall, answer_of_shard: Answer) -> Answer:
    """One queue; only the catalog knows whether it is exclusive."""
    assert isinstance(answer_of_shard, Response), "a queue comes at once"
    row = json.loads(answer_of_shard.body)
    with call.runtime as core:
        exclusive = call.queue(core).owner is not None
    return answer({**row, "exclusive": exclusive} if "exclusive" in row else row)


def to_shards_of_message(call: ManagementCall) -> dict[str, Request]:
    """The request to every shard that has a queue for the message."""
    names = messages.destinations(call)
    return {call.nodes.shard_id_of(call.named("vhost"), name): call.request for name in names}


def merge_published(call: ManagementCall, parts: Parts) -> Answer:
    """Whether all of these shards have the message."""
    return answer({"routed": bool(parts.values) and all(each["routed"] for each in parts.values.values())})


def to_shards_of_dead_letters(call: ManagementCall) -> dict[str, Request]:
    """The request to the shards of dead-letter queues, which only the catalog knows, with their names."""
    by_shard: dict[str, list[str]] = defaultdict(list)
    with call.runtime as core:
        for queue in dead_letter_queues(call.virtual_host(core)):
            if call.allows("basic.get", {"queue": queue.name}):
                by_shard[call.nodes.shard_id_of(queue.vhost, queue.name)].append(queue.name)
    requests = {shard_id: Request("GET", call.request.raw_path, {}, call.request.peer) for shard_id in by_shard}
    for shard_id, request in requests.items():
        request.identity, request.body = call.request.identity, json.dumps({"queues": by_shard[shard_id]}).encode()
    return requests


def merge_dead_letters(call: ManagementCall, parts: Parts) -> Answer:
    """Dead letters by group, the largest first."""
    answers, most = parts.values.values(), dead_letters.GROUPS_MAX
    groups = dead_letters.largest_first([row for each in answers for row in each["groups"]])
    queues = sorted((row for each in answers for row in each["queues"]), key=named)
    complete = all(each["complete"] for each in answers) and not parts.missing and len(groups) <= most
    return answer({"groups": groups[:most], "queues": queues, "complete": complete})


def merge_scheduled(call: ManagementCall, parts: Parts) -> Answer:
    """The next messages that are due."""
    answers = parts.values.values()
    rows: list[Row] = [row for each in answers for row in each["messages"]]
    queues = sorted((row for each in answers for row in each["queues"]), key=named)
    return answer(
        {
            "messages": nsmallest(call.number("limit") or messages.TOLD, rows, key=lambda row: row["due_at"]),
            "queues": queues[: messages.CHOICE_MAX],
            "total": sum(each["total"] for each in answers),
            "complete": all(each["complete"] for each in answers) and not parts.missing,
        }
    )


LIST = list_by(named)
CONSUMERS = list_by(lambda row: str(row["consumer_tag"]))
FIRST, OWN, CHANNEL = (InCluster(merge=each, raw=True) for each in (first_found, own, find_channel))
REPORT, ALARMS = InCluster(merge=find_report, raw=True), InCluster(merge=merge_alarms, raw=True)
NODES, NODE = InCluster(merge=merge_nodes), InCluster(merge=show_down)
OVERVIEW, VHOSTS, VHOST = (InCluster(merge=each) for each in (merge_overview, merge_vhosts, merge_vhost))
EVENTS, FIRING = InCluster(merge=merge_events), InCluster(merge=merge_alerts)
RECEIVERS, REPORTS = InCluster(merge=merge_receivers), InCluster(merge=merge_reports)
QUEUE, DELETED = InCluster(finish=with_owner), InCluster(after=forgotten)
PUBLISHED = InCluster(scatter=to_shards_of_message, merge=merge_published)
DEAD_LETTERS = InCluster(scatter=to_shards_of_dead_letters, merge=merge_dead_letters)
SCHEDULED = InCluster(merge=merge_scheduled)
