"""What a server is and has: totals, rates and features; nodes, what they store, and the cluster that they are in."""

from __future__ import annotations

import asyncio
import os
import platform
import ssl
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Any

from leveret.core.broker import Broker
from leveret.core.errors import BrokerClosed, JournalFailed
from leveret.core.exchanges import TYPES
from leveret.core.topology import Vhost
from leveret.protocols.http.response import Answer, Answered
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.context import API_VERSION, PRODUCT, AdminContext, ClusterOperations, Listening, Row
from leveret.protocols.management.listing import listed, one, range_of
from leveret.protocols.management.policies import cluster_name
from leveret.protocols.management.rates import (
    DEPTH_INDEXES,
    DEPTHS,
    HISTORY,
    SAMPLE_S,
    TOTAL_HISTORY,
    Rates,
    message_stats,
)
from leveret.protocols.management.refusals import BadRequest, Missing, answer, done
from leveret.runtime.runtime import Runtime
from leveret.runtime.stats import history_begins_ms, journal_stats

HISTORY_S = int(HISTORY * SAMPLE_S)
TOTAL_HISTORY_S = int(TOTAL_HISTORY * SAMPLE_S)
SUMMED_MAX = 5_000  # queues that are looked at for one answer: of more, the last sample is told
CONTEXT = {"description": "RabbitMQ Management", "path": "/"}


def look(call: ManagementCall) -> Answer:
    """The whole broker, as far as the user sees it."""
    lengths, rates = range_of(call, "lengths"), range_of(call, "msg_rates")
    context, process = call.context, call.context.process
    with context.async_broker.runtime as core:
        virtual_hosts = call.virtual_hosts(core)
        count = sum(len(virtual_host.queues) for virtual_host in virtual_hosts)
        objects = {
            **context.clients.counts(),
            "exchanges": sum(len(virtual_host.exchanges) for virtual_host in virtual_hosts),
            "queues": count,
        }
        name, churn = cluster_name(context, core), churn_rates(context.rates, core)
    depth: Row = sampled_totals(context.rates, virtual_hosts) if count > SUMMED_MAX else totals(context, virtual_hosts)
    for index, each in enumerate(DEPTHS):
        depth[f"{each}_details"] = context.rates.depth.details(index, lengths)
    found: Row = {
        "management_version": API_VERSION,
        "rabbitmq_version": API_VERSION,
        "product_name": PRODUCT,
        "product_version": process.version,
        "erlang_version": "none",
        "erlang_full_version": f"none: Python {platform.python_version()}",
        "rates_mode": "basic",
        "sample_retention_policies": {"global": [TOTAL_HISTORY_S], "basic": [HISTORY_S], "detailed": [HISTORY_S]},
        "exchange_types": exchange_types(),
        "cluster_name": name,
        "release_series_support_status": "supported",
        "disable_stats": False,
        "enable_queue_totals": False,
        "message_stats": message_stats(context.rates.total.last, context.rates.total, rates),
        "churn_rates": churn,
        "queue_totals": depth,
        "object_totals": objects,
        "statistics_db_event_queue": 0,
        "node": process.node,
        "listeners": listeners(context),
        "contexts": contexts(context, named=True),
    }
    return one(call, found)


def totals(context: AdminContext, virtual_hosts: Iterable[Vhost]) -> Row:
    """What is in the queues of some virtual hosts together."""
    names = {virtual_host.name for virtual_host in virtual_hosts}
    ready = taken = later = 0
    for runtime in context.runtimes:
        with suppress(BrokerClosed, JournalFailed), runtime as core:
            queues = [queue for queue in core.queues.values() if queue.vhost in names]
            ready += sum(queue.depth for queue in queues)
            taken += sum(queue.leased for queue in queues)
            later += sum(queue.scheduled + queue.backing_off for queue in queues)
    return {"messages": ready + taken + later, "messages_ready": ready, "messages_unacknowledged": taken}


def sampled_totals(rates: Rates, virtual_hosts: Iterable[Vhost]) -> Row:
    """The same some seconds ago, whatever the number of queues."""
    series = [rates.of_vhost(virtual_host.name).last for virtual_host in virtual_hosts]
    return {name: sum(each[index] for each in series) for name, index in zip(DEPTHS, DEPTH_INDEXES, strict=True)}


def churn_rates(rates: Rates, core: Broker) -> Row:
    """What has come and gone, and how fast; under the lock."""
    found: Row = {}
    for index, (name, value) in enumerate(rates.churn(core).items()):
        found[name] = value
        found[f"{name}_details"] = rates.churned.details(index)
    return found


def exchange_types() -> list[Row]:
    """The types of exchanges that there are."""
    return [{"name": name, "description": f"Exchange of the type {name}", "enabled": True} for name in sorted(TYPES)]


def listeners(context: AdminContext) -> list[Row]:
    """The addresses that clients can come to."""
    return [
        {
            "node": context.process.node,
            "protocol": protocol_of(each),
            "ip_address": each.host,
            "port": each.port,
            "tls": each.tls,
            "socket_opts": {},
        }
        for each in context.process.listening()
    ]


def protocol_of(listening: Listening) -> str:
    """What RabbitMQ calls the protocol of a listener."""
    names = {"amqps": "amqp/ssl"}
    return names.get(listening.protocol, listening.protocol)


def contexts(context: AdminContext, *, named: bool = False) -> list[Row]:
    """Where this API is."""
    found = [each for each in context.process.listening() if each.protocol in ("http", "https")]
    node: dict[str, Any] = {"node": context.process.node} if named else {}
    return [{**node, **CONTEXT, "ip": each.host, "port": str(each.port), "ssl_opts": []} for each in found]


def extensions(call: ManagementCall) -> Answer:
    """What plugins add to RabbitMQ's page: nothing here."""
    return answer([])


def auth(call: ManagementCall) -> Answer:
    """How to log in to RabbitMQ's page: by name and password."""
    return answer({"oauth_enabled": False, "enable_uaa": False, "uaa_client_id": "", "uaa_location": ""})


FLAGS = {
    "quorum_queue": "Queues of the type quorum",
    "user_limits": "Limits of connections and channels for each user",
    "virtual_host_metadata": "Description and tags of virtual hosts",
    "direct_exchange_routing_v2": "Routes that are remembered",
    "feature_flags_v2": "These flags",
    "message_containers": "Messages that every protocol understands",
}
DEPRECATED = {
    "classic_queue_mirroring": "Mirrored queues; use the type quorum",
    "ram_node_type": "Nodes without a disk",
    "queue_master_locator": "Where queues are placed",
}


def list_flags(call: ManagementCall) -> Answered:
    """The features, all of them on."""
    fixed = {"doc_url": "", "state": "enabled", "stability": "stable", "provided_by": "leveret"}
    return listed(call, [{"name": name, "desc": text, **fixed} for name, text in FLAGS.items()])


def enable(call: ManagementCall) -> Answer:
    """Switch a feature on: it is."""
    if call.named("name") not in FLAGS:
        raise BadRequest(f"there is no feature flag '{call.named('name')}'")
    return done()


def list_deprecated(call: ManagementCall) -> Answered:
    """What is gone."""
    fixed = {"deprecation_phase": "removed", "doc_url": "", "state": "denied", "provided_by": "leveret"}
    return listed(call, [{"name": name, "desc": text, **fixed} for name, text in DEPRECATED.items()])


def list_deprecated_used(call: ManagementCall) -> Answer:
    """What of that is used: nothing."""
    return answer([])


# Nodes

MECHANISMS = ("PLAIN", "AMQPLAIN", "EXTERNAL")


def node_row(call: ManagementCall) -> Row:
    """This process."""
    context, process = call.context, call.context.process
    alarm = process.alarm() or ""
    with context.async_broker.runtime as core:
        churn, now_ms = churn_rates(context.rates, core), core.now_ms
        connections = context.clients.counts()["connections"]
    return {
        "name": process.node,
        "type": "disc",
        "running": True,
        "os_pid": str(process.pid),
        "uptime": max(0, now_ms - process.started_ms),
        "processors": os.cpu_count() or 1,
        "run_queue": 0,
        "partitions": [],
        "cluster_links": [{"name": name} for name in ([] if context.cluster is None else context.cluster.links)],
        "mem_used": process.memory_bytes(),
        "mem_limit": process.memory_bytes_max,
        "mem_alarm": "memory" in alarm,
        "mem_calculation_strategy": "rss",
        "disk_free": process.free_bytes(),
        "disk_free_limit": process.free_bytes_min,
        "disk_free_alarm": "disk" in alarm,
        "fd_used": open_files(),
        "fd_total": process.files_max,
        "sockets_used": connections,
        "sockets_total": process.files_max,
        "proc_used": 1,
        "proc_total": 1,
        "db_dir": process.data,
        "config_files": [],
        "log_files": ["<stderr>"],
        "net_ticktime": 60,
        "rates_mode": "basic",
        "enabled_plugins": ["rabbitmq_management"],
        "exchange_types": exchange_types(),
        "auth_mechanisms": [{"name": name, "description": name, "enabled": True} for name in MECHANISMS],
        "applications": [{"name": "leveret", "description": "Leveret", "version": process.version}],
        "contexts": contexts(context),
        **churn,
        "being_drained": context.cluster is not None and context.cluster.draining,
    }


def open_files() -> int:
    """How many files and sockets the process has open."""
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0


def list_nodes(call: ManagementCall) -> Answered:
    """The one."""
    return listed(call, [node_row(call)])


def look_at_node(call: ManagementCall) -> Answer:
    """The same by its name."""
    check_node(call)
    return one(call, node_row(call))


def look_at_memory(call: ManagementCall) -> Answer:
    """What its memory is used for, as far as that is known: all together."""
    check_node(call)
    used = call.context.process.memory_bytes()
    total = {"erlang": used, "rss": used, "allocated": used}
    return answer({"memory": {"other_system": used, "strategy": "rss", "total": total}})


def check_node(call: ManagementCall) -> None:
    """Refuse another node than this one."""
    if call.named("node") != call.context.process.node:
        raise Missing()


JOURNAL_SUMS = (
    "frames", "syncs", "segments", "log_bytes", "unwritten_bytes", "cached_bytes",
    "history_segments", "history_bytes", "history_dropped", "events_dropped",
)  # fmt: skip


async def look_at_storage(call: ManagementCall) -> Answer:
    """The storage of this node."""
    check_node(call)
    runtimes = call.context.runtimes
    journal = await asyncio.to_thread(_journal, runtimes)
    return answer(
        {"journal": journal, "streams": _streams(runtimes), "versions": versions(call.context.process.version)}
    )


def _journal(runtimes: Sequence[Runtime]) -> Row | None:
    """The journal, or those of shards together, if there are any.

    All queues would have to be counted to tell how many messages each sync had.
    """
    found = [journal_stats(each.store, each.first_batch, 0) for each in runtimes if each.store is not None]
    if not found:
        return None
    sums = {name: sum(getattr(stats, name) for stats in found) for name in JOURNAL_SUMS}
    problem = next((stats.archive_problem for stats in found if stats.archive_problem is not None), None)
    return {
        "sync": found[0].sync,
        **sums,
        "history_begins_ms": history_begins_ms(found),
        "full": any(stats.full for stats in found),
        "archive_problem": problem,
    }


def _streams(runtimes: Sequence[Runtime]) -> Row:
    """All streams together."""
    partitions: list[dict[str, int]] = []
    for runtime in runtimes:
        with suppress(BrokerClosed, JournalFailed), runtime as core:
            streams = [queue.recorder for queue in core.queues.values() if queue.recorder is not None]
            partitions += [figures for recorder in streams for figures in recorder.figures()]
    return {
        "partitions": len(partitions),
        "segments": sum(each["segments"] for each in partitions),
        "bytes": sum(each["size_bytes"] for each in partitions),
    }


def versions(product: str) -> dict[str, str]:
    """What a report of a problem should have."""
    return {
        "Leveret": product,
        "Python": platform.python_version(),
        "uvloop": version("uvloop"),
        "TLS": ssl.OPENSSL_VERSION,
        "System": f"{platform.system()} {platform.release()} ({platform.machine()})",
    }


def cluster_of(call: ManagementCall) -> ClusterOperations:
    """The cluster of a node; a single server has none."""
    if call.context.cluster is None:
        raise Missing()
    return call.context.cluster


async def cluster_status(call: ManagementCall) -> Answer:
    """Who is there, and who has which shard; on a single server none."""
    if call.context.cluster is None:
        nothing: dict[str, list[object]] = {name: [] for name in ("members", "groups", "shards", "doubts")}
        return answer({"cluster": None, "node": call.context.process.node, **nothing})
    return answer(await call.context.cluster.status())


async def drain(call: ManagementCall) -> Answer:
    """Give the shards of this node to others, then stop it unless it is to stay."""
    return answer(await cluster_of(call).drain(call.field("stay", bool, False)))


async def rebalance(call: ManagementCall) -> Answer:
    """Let shards go to the nodes that should have them; a single server has nothing to spread."""
    if call.context.cluster is not None:
        await call.context.cluster.rebalance()
    return done()
