"""Makes rules.yml: the rules of leveret.observability.alert_rules as Prometheus judges by them, and some about the
server itself.

python -m deploy.prometheus.make_rules
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from leveret.observability.alert_rules import RULES, STREAM_RULES, AlertRule

HERE = Path(__file__).parent
HEAD = """\
# Made by deploy/prometheus/make_rules.py from the rules of leveret.observability.alert_rules: change them there.
# They need the two jobs of prometheus.yml beside this file.
groups:
"""
UNIT = {"ms": 1_000}  # units of a rule that are one of its metric
GRAVEYARD = "unless leveret_queue_graveyard"
FAILED, ACKED = "increase(leveret_queue_failed_total[5m])", "increase(leveret_queue_acked_total[5m])"
# What each figure of a rule is to Prometheus; {limit} and {sample_min} are those of the rule.
EXPRESSIONS = {
    "depth_max": "leveret_queue_messages > {limit}",
    "oldest_ms": "leveret_queue_oldest_message_age_seconds > {limit}",
    "waiting_max": "leveret_queue_messages_ready > {limit}",
    "dead_per_hour": "sum without (reason) (increase(leveret_queue_dead_letters_total[1h])) > {limit}",
    "error_share": f"{FAILED} / ({FAILED} + {ACKED}) > {{limit}} and {FAILED} + {ACKED} >= {{sample_min}}",
    "processing_p95_ms": "histogram_quantile(0.95, rate(leveret_queue_processing_seconds_bucket[5m])) > {limit}",
    "idle_ms": "leveret_queue_messages_ready > 0 and leveret_queue_consumers == 0 and leveret_queue_leases == 0 "
    "unless increase(leveret_queue_delivered_total[{limit}s]) > 0",
    "lag_max": "leveret_stream_group_lag > {limit}",
}
# Those whose limit is a time that something must last.
LASTING = frozenset(("idle_ms",))


class ServerRule(NamedTuple):
    """A rule about the server: it fires when the expression gives anything."""

    name: str
    expression: str
    for_s: int
    severity: str
    says: str


SERVER_RULES = (
    ServerRule(
        "revocation_list_expiry",
        "leveret_tls_revocation_list_expiry_timestamp_seconds - time() < 21600",
        0,
        "critical",
        "a revocation list expires within hours: every certificate that it is about will be refused",
    ),
    ServerRule("server_down", 'up{job="leveret"} == 0', 60, "critical", "the server cannot be scraped"),
    ServerRule(
        "memory_alarm",
        "rabbitmq_alarms_memory_used_watermark > 0",
        0,
        "critical",
        "publishers are blocked for want of memory",
    ),
    ServerRule(
        "disk_alarm",
        "rabbitmq_alarms_free_disk_space_watermark > 0",
        0,
        "critical",
        "publishers are blocked for want of disk space",
    ),
    ServerRule("journal_full", "leveret_journal_full > 0", 0, "critical", "publishes are refused: the disk is full"),
    ServerRule(
        "slow_syncs",
        "histogram_quantile(0.99, rate(leveret_journal_sync_seconds_bucket[5m])) > 0.5",
        300,
        "warning",
        "the disk takes long to make commits durable",
    ),
    ServerRule(
        "vacant_shards",
        "leveret_cluster_shards_vacant > 0",
        60,
        "critical",
        "some shards of the cluster have no owner: their queues cannot be used",
    ),
    ServerRule("link_down", "leveret_cluster_link_up == 0", 60, "warning", "another node is not reached"),
    ServerRule("etcd_trouble", "leveret_cluster_etcd_trouble > 0", 60, "warning", "etcd does not renew the lease"),
    ServerRule(
        "store_trouble",
        "leveret_cluster_store_trouble > 0",
        30,
        "critical",
        "PostgreSQL takes nothing of a shard: nothing is confirmed there",
    ),
    ServerRule(
        "definitions_trouble",
        "leveret_cluster_definitions_trouble > 0",
        30,
        "critical",
        "the definitions of a node may be old: its clients wait for the database that has them",
    ),
    ServerRule(
        "shards_doubtful",
        "leveret_cluster_shards_doubtful > 0",
        0,
        "critical",
        "a shard has queues that older definitions do not know: adopt or discard them",
    ),
    ServerRule(
        "redis_away",
        "leveret_redis_up == 0",
        300,
        "warning",
        "nodes keep limits each for itself: Redis does not answer",
    ),
)


def title(name: str) -> str:
    """The name of an alert as Prometheus has it."""
    return "Leveret" + "".join(word.capitalize() for word in name.split("_"))


def expression(rule: AlertRule) -> str:
    """When a rule fires."""
    limit = f"{rule.limit / UNIT.get(rule.unit, 1):g}"
    found = EXPRESSIONS[rule.figure].format(limit=limit, sample_min=rule.sample_min)
    return f"{found} {GRAVEYARD}" if rule.about_waiting else found


def lasts_s(rule: AlertRule) -> int:
    """How long that has to last."""
    return int(rule.limit / UNIT.get(rule.unit, 1)) if rule.figure in LASTING else rule.for_s


def lines(name: str, expression: str, for_s: int, severity: str, says: str, where: str) -> Iterator[str]:
    """One rule in YAML; strings of JSON are strings of YAML too."""
    yield f"      - alert: {title(name)}"
    yield f"        expr: {json.dumps(expression)}"
    yield f"        for: {for_s}s"
    yield f"        labels: {{severity: {severity}, rule: {name}}}"
    yield "        annotations:"
    yield f"          summary: {json.dumps(f'{where}: {says}')}"
    yield '          description: "it is {{ $value | humanize }} now"'


def text() -> str:
    """The whole file."""
    queue = "queue {{ $labels.queue }} in {{ $labels.vhost }}"
    stream = "group {{ $labels.group }} of stream {{ $labels.stream }} in {{ $labels.vhost }}"
    found = ["  - name: leveret-queues", "    rules:"]
    for rule in RULES:
        found += lines(rule.name, expression(rule), lasts_s(rule), rule.severity, rule.says, queue)
    found += ["  - name: leveret-streams", "    rules:"]
    for rule in STREAM_RULES:
        found += lines(rule.name, expression(rule), lasts_s(rule), rule.severity, rule.says, stream)
    found += ["  - name: leveret-servers", "    rules:"]
    for each in SERVER_RULES:
        found += lines(each.name, each.expression, each.for_s, each.severity, each.says, "{{ $labels.instance }}")
    return HEAD + "\n".join(found) + "\n"


if __name__ == "__main__":
    (HERE / "rules.yml").write_text(text())
