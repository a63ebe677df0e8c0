"""Nodes, what they store, and the cluster that they are in."""

from __future__ import annotations

import asyncio
import os
import platform
import ssl
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from importlib.metadata import version

from leveret.core.errors import BrokerClosed, JournalFailed
from leveret.protocols.http.router import Answer
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.context import ClusterOperations, Row
from leveret.protocols.management.listing import listed, one
from leveret.protocols.management.overview import churn_rates, contexts, exchange_types
from leveret.protocols.management.refusals import Missing, answer, done
from leveret.runtime.runtime import Runtime
from leveret.runtime.stats import journal_stats

MECHANISMS = ("PLAIN", "AMQPLAIN", "EXTERNAL")


def shown(call: ManagementCall) -> Row:
    """This process."""
    context, process = call.context, call.context.process
    alarm = process.alarm() or ""
    with context.async_broker.runtime as core:
        churn, connections, now_ms = (
            churn_rates(context.rates, core),
            context.clients.counts()["connections"],
            core.now_ms,
        )
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


def list_all(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """The one."""
    return listed(call, [shown(call)])


def look(call: ManagementCall) -> Answer:
    """The same by its name."""
    check_node(call)
    return one(call, shown(call))


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


SUMMED = ("frames", "syncs", "segments", "log_bytes", "unwritten_bytes", "cached_bytes")


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
    sums = {name: sum(getattr(stats, name) for stats in found) for name in SUMMED}
    problem = next((stats.archive_problem for stats in found if stats.archive_problem is not None), None)
    return {"sync": found[0].sync, **sums, "full": any(stats.full for stats in found), "archive_problem": problem}


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
