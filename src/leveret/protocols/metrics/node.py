"""Figures of the process and of its clients, under RabbitMQ's names so that its dashboards find them."""

import platform

from leveret.observability.exposition import Labels, labels
from leveret.protocols.management.context import API_VERSION, PRODUCT
from leveret.protocols.metrics.facts import ScrapeFacts
from leveret.protocols.metrics.figure import figure


def build(facts: ScrapeFacts) -> dict[Labels, int]:
    """Which versions these are."""
    python = platform.python_version()
    return {
        labels(
            rabbitmq_version=API_VERSION,
            erlang_version=f"none: Python {python}",
            prometheus_plugin_version=facts.process.version,
            prometheus_client_version="none",
            product_name=PRODUCT,
            product_version=facts.process.version,
        ): 1
    }


def identity(facts: ScrapeFacts) -> dict[Labels, int]:
    """Who this is: other metrics are joined with it by dashboards."""
    return {
        labels(
            rabbitmq_node=facts.process.node,
            rabbitmq_cluster=facts.cluster,
            rabbitmq_cluster_permanent_id=f"leveret-{facts.tag:016x}",
        ): 1
    }


def alarmed(facts: ScrapeFacts, what: str) -> int:
    """Whether publishers are blocked because there is too little of something."""
    return int(what in (facts.process.alarm() or ""))


PROCESS = (
    figure("rabbitmq_build_info", "gauge", "RabbitMQ whose API this is, and versions of ours", build),
    figure("rabbitmq_identity_info", "gauge", "Node and cluster", identity),
    figure("rabbitmq_process_resident_memory_bytes", "gauge", "Memory used", lambda f: f.memory_bytes),
    figure(
        "rabbitmq_resident_memory_limit_bytes",
        "gauge",
        "Memory over which publishers are blocked",
        lambda f: f.process.memory_bytes_max,
    ),
    figure("rabbitmq_disk_space_available_bytes", "gauge", "Free disk space", lambda f: f.free_bytes),
    figure(
        "rabbitmq_disk_space_available_limit_bytes",
        "gauge",
        "Free disk space below which publishers are blocked",
        lambda f: f.process.free_bytes_min,
    ),
    figure(
        "rabbitmq_alarms_memory_used_watermark",
        "gauge",
        "1 while publishers are blocked for want of memory",
        lambda f: alarmed(f, "memory"),
    ),
    figure(
        "rabbitmq_alarms_free_disk_space_watermark",
        "gauge",
        "1 while publishers are blocked for want of disk space",
        lambda f: alarmed(f, "disk"),
    ),
    figure("rabbitmq_process_open_fds", "gauge", "Open files and sockets", lambda f: f.files),
    figure("rabbitmq_process_max_fds", "gauge", "Open files that there may be", lambda f: f.process.files_max),
    figure("rabbitmq_process_open_tcp_sockets", "gauge", "Open AMQP sockets", lambda f: f.objects["connections"]),
    figure(
        "rabbitmq_process_max_tcp_sockets", "gauge", "Open sockets that there may be", lambda f: f.process.files_max
    ),
    figure("process_resident_memory_bytes", "gauge", "Memory used", lambda f: f.memory_bytes),
    figure("process_open_fds", "gauge", "Open files and sockets", lambda f: f.files),
    figure("process_max_fds", "gauge", "Open files that there may be", lambda f: f.process.files_max),
    figure("process_cpu_seconds_total", "counter", "CPU time used", lambda f: round(f.cpu_s, 3)),
    figure(
        "process_start_time_seconds",
        "gauge",
        "When the server was started, in seconds since 1970",
        lambda f: f.process.started_ms / 1_000,
    ),
)
OBJECTS = (
    figure("rabbitmq_connections", "gauge", "Connections now", lambda f: f.objects["connections"]),
    figure("rabbitmq_channels", "gauge", "Channels now", lambda f: f.objects["channels"]),
    figure("rabbitmq_consumers", "gauge", "Consumers now", lambda f: f.objects["consumers"]),
    figure("rabbitmq_queues", "gauge", "Queues now", lambda f: f.objects["queues"]),
    figure(
        "rabbitmq_connections_opened_total", "counter", "Connections opened", lambda f: f.churn["connection_created"]
    ),
    figure(
        "rabbitmq_connections_closed_total", "counter", "Connections closed", lambda f: f.churn["connection_closed"]
    ),
    figure("rabbitmq_channels_opened_total", "counter", "Channels opened", lambda f: f.churn["channel_created"]),
    figure("rabbitmq_channels_closed_total", "counter", "Channels closed", lambda f: f.churn["channel_closed"]),
    figure("rabbitmq_queues_declared_total", "counter", "Queues declared", lambda f: f.churn["queue_declared"]),
    figure("rabbitmq_queues_created_total", "counter", "Queues created", lambda f: f.churn["queue_created"]),
    figure("rabbitmq_queues_deleted_total", "counter", "Queues deleted", lambda f: f.churn["queue_deleted"]),
)
NODE = PROCESS + OBJECTS
