"""Nodes: this process; others are asked for themselves."""

from __future__ import annotations

import os
from collections.abc import Awaitable

from leveret.protocols.http.router import Answer
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.context import Row
from leveret.protocols.management.listing import listed, one
from leveret.protocols.management.overview import churn_rates, contexts, exchange_types
from leveret.protocols.management.refusals import Missing, answer

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
