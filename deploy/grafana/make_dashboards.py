"""Makes the dashboards beside this file: tables of panels, each a title, a unit and what is drawn.

python -m deploy.grafana.make_dashboards
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
COLUMNS = 24  # of Grafana's grid
SCHEMA = 38
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
BROKER = 'instance=~"$instance"'
QUEUE = BROKER + ',vhost=~"$vhost",queue=~"$queue"'
EVERY = "[$__rate_interval]"


class Panel(NamedTuple):
    """One drawing: expressions by what they are called; a name in braces stands for a label."""

    title: str
    unit: str
    drawn: dict[str, str]
    width: int = 8
    kind: str = "timeseries"
    limit: float | None = None
    """From which value on it is red."""


def rate(metric: str, where: str = QUEUE) -> str:
    """How fast a counter grows."""
    return f"rate({metric}{{{where}}}{EVERY})"


def total(metric: str, where: str = BROKER) -> str:
    """The same of the whole broker."""
    return f"sum({rate(metric, where)})"


def most(expression: str) -> str:
    """The ten of which there is most."""
    return f"topk(10, {expression})"


def gauge(metric: str) -> str:
    """A figure of some queues."""
    return f"{metric}{{{QUEUE}}}"


def quantile(share: float, metric: str, where: str, by: str = "le") -> str:
    """The time that this share of messages is below."""
    return f"histogram_quantile({share}, sum by ({by}) ({rate(f'{metric}_bucket', where)}))"


def within(metric: str, edge: str) -> str:
    """The share of messages that took no longer."""
    counted = f'{metric}_bucket{{{BROKER},le="{edge}"}}'
    return f"sum(rate({counted}{EVERY})) / sum(rate({metric}_count{{{BROKER}}}{EVERY}))"


QUEUES = (
    Panel("Messages that wait", "short", {"{{vhost}} {{queue}}": most(gauge("leveret_queue_messages_ready"))}, 12),
    Panel(
        "Age of the first message",
        "s",
        {"{{vhost}} {{queue}}": most(gauge("leveret_queue_oldest_message_age_seconds"))},
        12,
        limit=300,
    ),
    Panel("Published", "cps", {"{{vhost}} {{queue}}": most(rate("leveret_queue_published_total"))}),
    Panel("Handed out", "cps", {"{{vhost}} {{queue}}": most(rate("leveret_queue_delivered_total"))}),
    Panel("Acknowledged", "cps", {"{{vhost}} {{queue}}": most(rate("leveret_queue_acked_total"))}),
    Panel("Taken and not settled", "short", {"{{vhost}} {{queue}}": most(gauge("leveret_queue_leases"))}),
    Panel("Not due yet", "short", {"{{vhost}} {{queue}}": most(gauge("leveret_queue_messages_scheduled"))}),
    Panel("Refused because a queue is full", "cps", {"{{vhost}} {{queue}}": most(rate("leveret_queue_refused_total"))}),
    Panel(
        "Dead letters in an hour",
        "short",
        {
            "{{vhost}} {{queue}} {{reason}}": most(
                f"sum by (vhost, queue, reason) (increase(leveret_queue_dead_letters_total{{{QUEUE}}}[1h]))"
            )
        },
        12,
        limit=100,
    ),
    Panel(
        "Messages that wait, by priority",
        "short",
        {"priority {{priority}}": f"sum by (priority) (leveret_messages_ready_by_priority{{{BROKER}}})"},
        12,
    ),
    Panel(
        "Messages published a second, by priority",
        "short",
        {
            "priority {{priority}}": (
                f"sum by (priority) (rate(leveret_messages_published_by_priority_total{{{BROKER}}}[5m]))"
            )
        },
        12,
    ),
    Panel(
        "All messages of a queue",
        "short",
        {"{{vhost}} {{queue}}": most(gauge("leveret_queue_messages"))},
        24,
        limit=1e4,
    ),
)
CONSUMERS = (
    Panel("Consumers", "short", {"{{vhost}} {{queue}}": most(gauge("leveret_queue_consumers"))}),
    Panel("Handed out", "cps", {"{{vhost}} {{queue}}": most(rate("leveret_queue_delivered_total"))}),
    Panel("Failed deliveries", "cps", {"{{vhost}} {{queue}}": most(rate("leveret_queue_failed_total"))}),
    Panel(
        "Processing time, 95 of 100 below",
        "s",
        {"{{vhost}} {{queue}}": most(quantile(0.95, "leveret_queue_processing_seconds", QUEUE, "le, vhost, queue"))},
        12,
        limit=30,
    ),
    Panel(
        "Waiting time, 95 of 100 below",
        "s",
        {"{{vhost}} {{queue}}": most(quantile(0.95, "leveret_queue_waiting_seconds", QUEUE, "le, vhost, queue"))},
        12,
    ),
    Panel(
        "Share of failed deliveries",
        "percentunit",
        {
            "{{vhost}} {{queue}}": most(
                f"{rate('leveret_queue_failed_total')} / "
                f"({rate('leveret_queue_failed_total')} + {rate('leveret_queue_acked_total')})"
            )
        },
        limit=0.01,
    ),
    Panel("Handed out again", "cps", {"{{queue_type}}": rate("rabbitmq_global_messages_redelivered_total", BROKER)}),
    Panel("Held by channels", "short", {"{{instance}}": f"rabbitmq_channel_messages_unacked{{{BROKER}}}"}),
    Panel(
        "Lag of consumer groups",
        "short",
        {"{{stream}} {{group}}": most(f'leveret_stream_group_lag{{{BROKER},vhost=~"$vhost"}}')},
        24,
        limit=1_000,
    ),
)
RESOURCES = (
    Panel(
        "Memory",
        "bytes",
        {
            "used": f"rabbitmq_process_resident_memory_bytes{{{BROKER}}}",
            "limit": f"rabbitmq_resident_memory_limit_bytes{{{BROKER}}}",
        },
    ),
    Panel(
        "Disk",
        "bytes",
        {
            "free": f"rabbitmq_disk_space_available_bytes{{{BROKER}}}",
            "limit": f"rabbitmq_disk_space_available_limit_bytes{{{BROKER}}}",
        },
    ),
    Panel("CPU", "short", {"cores": rate("process_cpu_seconds_total", BROKER)}),
    Panel(
        "Clients",
        "short",
        {
            "connections": f"rabbitmq_connections{{{BROKER}}}",
            "channels": f"rabbitmq_channels{{{BROKER}}}",
            "consumers": f"rabbitmq_consumers{{{BROKER}}}",
            "queues": f"rabbitmq_queues{{{BROKER}}}",
        },
    ),
    Panel(
        "Clients that come and go",
        "cps",
        {
            "connections opened": rate("rabbitmq_connections_opened_total", BROKER),
            "connections closed": rate("rabbitmq_connections_closed_total", BROKER),
            "channels opened": rate("rabbitmq_channels_opened_total", BROKER),
            "queues created": rate("rabbitmq_queues_created_total", BROKER),
        },
    ),
    Panel(
        "Open files",
        "short",
        {"open": f"process_open_fds{{{BROKER}}}", "limit": f"process_max_fds{{{BROKER}}}"},
    ),
    Panel(
        "Time of a sync",
        "s",
        {
            "50 of 100 below": quantile(0.5, "leveret_journal_sync_seconds", BROKER),
            "99 of 100 below": quantile(0.99, "leveret_journal_sync_seconds", BROKER),
        },
        limit=0.5,
    ),
    Panel(
        "Entries in a commit",
        "short",
        {
            "50 of 100 below": quantile(0.5, "leveret_journal_commit_entries", BROKER),
            "99 of 100 below": quantile(0.99, "leveret_journal_commit_entries", BROKER),
        },
    ),
    Panel("Written to the journal", "Bps", {"bytes": rate("leveret_journal_written_bytes_total", BROKER)}),
    Panel(
        "Size on disk",
        "bytes",
        {
            "journal": f"leveret_journal_bytes{{{BROKER}}}",
            "archive": f"leveret_archive_bytes{{{BROKER}}}",
            "streams": f"leveret_stream_bytes{{{BROKER}}}",
        },
    ),
    Panel(
        "Time of the last recovery", "s", {"{{instance}}": f"leveret_journal_replay_seconds{{{BROKER}}}"}, kind="stat"
    ),
    Panel(
        "Publishers blocked, requests refused",
        "short",
        {
            "for want of memory": f"rabbitmq_alarms_memory_used_watermark{{{BROKER}}}",
            "for want of disk": f"rabbitmq_alarms_free_disk_space_watermark{{{BROKER}}}",
            "journal full": f"leveret_journal_full{{{BROKER}}}",
            "requests too often, a second": rate("leveret_rate_limited_requests_total", BROKER),
        },
        limit=1,
    ),
)
SERVICE = (
    Panel("Reachable", "percentunit", {"{{instance}}": f'avg_over_time(up{{{BROKER},job="leveret"}}[1d])'}, 6, "stat"),
    Panel("Taken within a second", "percentunit", {"share": within("leveret_waiting_seconds", "1.024")}, 6, "stat"),
    Panel("Taken within 8 seconds", "percentunit", {"share": within("leveret_waiting_seconds", "8.192")}, 6, "stat"),
    Panel("Processed within 33 s", "percentunit", {"share": within("leveret_processing_seconds", "32.768")}, 6, "stat"),
    Panel(
        "Waiting time",
        "s",
        {f"{share:.0%} below": quantile(share, "leveret_waiting_seconds", BROKER) for share in (0.5, 0.95, 0.99)},
        12,
    ),
    Panel(
        "Processing time",
        "s",
        {f"{share:.0%} below": quantile(share, "leveret_processing_seconds", BROKER) for share in (0.5, 0.95, 0.99)},
        12,
        limit=30,
    ),
    Panel(
        "Share of failed deliveries",
        "percentunit",
        {
            "share": f"{total('leveret_deliveries_failed_total')} / ({total('leveret_deliveries_failed_total')} + "
            f"{total('rabbitmq_global_messages_acknowledged_total')})"
        },
        limit=0.01,
    ),
    Panel(
        "Dead letters",
        "cps",
        {"{{reason}}": f"sum by (reason) ({rate('leveret_dead_letters_total', BROKER)})"},
    ),
    Panel(
        "Longest wait of a message", "s", {"{{instance}}": f"leveret_oldest_message_age_seconds{{{BROKER}}}"}, limit=300
    ),
    Panel(
        "Messages a second",
        "cps",
        {
            "into queues": total("rabbitmq_global_messages_routed_total"),
            "handed out": total("rabbitmq_global_messages_delivered_total"),
            "acknowledged": total("rabbitmq_global_messages_acknowledged_total"),
        },
        24,
    ),
)
DASHBOARDS = {
    "leveret-queues": ("Leveret: queue health", QUEUES),
    "leveret-consumers": ("Leveret: consumer performance", CONSUMERS),
    "leveret-resources": ("Leveret: system resources", RESOURCES),
    "leveret-sla": ("Leveret: SLA compliance", SERVICE),
}


def variable(name: str, metric: str) -> dict[str, Any]:
    """What the reader may choose from: the values of a label."""
    query = f"label_values({metric}, {name})"
    choice = {"text": "All", "value": "$__all", "selected": True}
    shared = {"type": "query", "refresh": 2, "sort": 1, "multi": True, "includeAll": True, "allValue": ".*"}
    return {"name": name, "label": name, "datasource": SOURCE, "query": query, "current": choice, **shared}


def variables() -> list[dict[str, Any]]:
    """What the reader may choose."""
    source = {"name": "datasource", "label": "data source", "type": "datasource", "query": "prometheus"}
    queues = "leveret_queue_messages"
    return [
        source,
        variable("instance", "rabbitmq_identity_info"),
        variable("vhost", queues),
        variable("queue", queues),
    ]


def drawn(panel: Panel, number: int, x: int, y: int) -> dict[str, Any]:
    """A panel as Grafana has it."""
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.limit is not None:
        steps.append({"color": "red", "value": panel.limit})
    defaults = {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.limit is not None:
        defaults["custom"] = {"thresholdsStyle": {"mode": "line"}}
    return {
        "id": number,
        "title": panel.title,
        "type": panel.kind,
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": 5 if panel.kind == "stat" else 8},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {} if panel.kind == "stat" else {"legend": {"displayMode": "list", "placement": "bottom"}},
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
            for index, (legend, expression) in enumerate(panel.drawn.items())
        ],
    }


def placed(panels: Sequence[Panel]) -> list[dict[str, Any]]:
    """Panels from left to right, in rows."""
    found: list[dict[str, Any]] = []
    x = y = height = 0
    for number, panel in enumerate(panels, start=1):
        if x + panel.width > COLUMNS:
            x, y, height = 0, y + height, 0
        found.append(drawn(panel, number, x, y))
        x, height = x + panel.width, max(height, found[-1]["gridPos"]["h"])
    return found


def dashboard(uid: str) -> dict[str, Any]:
    """One dashboard."""
    title, panels = DASHBOARDS[uid]
    return {
        "uid": uid,
        "title": title,
        "tags": ["leveret"],
        "schemaVersion": SCHEMA,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables()},
        "panels": placed(panels),
    }


def text(uid: str) -> str:
    """The file of a dashboard."""
    return json.dumps(dashboard(uid), indent=1) + "\n"


if __name__ == "__main__":
    for uid in DASHBOARDS:
        (HERE / f"{uid}.json").write_text(text(uid))
