"""The rules for Prometheus: made from our table, and judged by Prometheus over series that should fire or not."""

import json
import re
import subprocess
from typing import Any

import pytest

from deploy.prometheus.make_rules import HERE, SERVER_RULES, expression, text, title
from leveret.observability.alert_rules import RULES, STREAM_RULES
from leveret.protocols.metrics.broker import CLUSTER
from tests.parts import need_program
from tests.protocols.metrics.names import metrics_in
from tests.protocols.metrics.scene import Scrape

QUEUE = 'job="leveret-queues",instance="a",vhost="/",queue="orders"'
GRAVEYARD = {f"leveret_queue_graveyard{{{QUEUE}}}": "1x120"}
MINUTES = "1x120"


def metric(name: str, **more: str) -> str:
    extra = "".join(f',{key}="{value}"' for key, value in more.items())
    return f"leveret_queue_{name}{{{QUEUE}{extra}}}"


def times(slow: int, quick: int) -> dict[str, str]:
    """Messages a minute that took 40 s, and that took a second."""
    edges = {"1.024": quick, "16.384": quick, "32.768": quick, "65.536": quick + slow, "+Inf": quick + slow}
    return {metric("processing_seconds_bucket", le=edge): f"0+{count}x120" for edge, count in edges.items()}


def waiting(depth: int, consumers: int = 0, leases: int = 0, delivered: str = "5x120") -> dict[str, str]:
    return {
        metric("messages_ready"): f"{depth}x120",
        metric("consumers"): f"{consumers}x120",
        metric("leases"): f"{leases}x120",
        metric("delivered_total"): delivered,
    }


def ended(failed: int, acked: int) -> dict[str, str]:
    """Deliveries a minute."""
    return {metric("failed_total"): f"0+{failed}x120", metric("acked_total"): f"0+{acked}x120"}


LAG = 'leveret_stream_group_lag{job="leveret",instance="a",vhost="/",stream="clicks",group="g"}'
SERVER = '{job="leveret",instance="a"}'
LINK = 'leveret_cluster_link_up{job="leveret",instance="a",peer="b"}'
SYNC = 'leveret_journal_sync_seconds_bucket{job="leveret",instance="a",le='
LISTS = 'leveret_tls_revocation_list_expiry_timestamp_seconds{job="leveret",instance="a",of="clients"}'
FIRES: list[tuple[str, dict[str, str]]] = [
    ("queue_depth", {metric("messages"): "10001x120"}),
    ("message_age", {metric("oldest_message_age_seconds"): "301x120"}),
    ("consumer_lag", waiting(1_001, consumers=1)),
    ("dead_letters", {metric("dead_letters_total", reason=why): "0+1x120" for why in ("rejected", "expired")}),
    ("error_rate", ended(failed=1, acked=20)),
    ("processing_time", times(slow=1, quick=9)),
    ("no_consumers", waiting(1)),
    ("stream_lag", {LAG: "1001x120"}),
    ("revocation_list_expiry", {LISTS: "22000x120"}),
    ("server_down", {f"up{SERVER}": "0x120"}),
    ("memory_alarm", {f"rabbitmq_alarms_memory_used_watermark{SERVER}": MINUTES}),
    ("disk_alarm", {f"rabbitmq_alarms_free_disk_space_watermark{SERVER}": MINUTES}),
    ("journal_full", {f"leveret_journal_full{SERVER}": MINUTES}),
    ("vacant_shards", {f"leveret_cluster_shards_vacant{SERVER}": MINUTES}),
    ("link_down", {LINK: "0x120"}),
    ("etcd_trouble", {f"leveret_cluster_etcd_trouble{SERVER}": MINUTES}),
    ("store_trouble", {f"leveret_cluster_store_trouble{SERVER}": MINUTES}),
    ("definitions_trouble", {f"leveret_cluster_definitions_trouble{SERVER}": MINUTES}),
    ("shards_doubtful", {f"leveret_cluster_shards_doubtful{SERVER}": MINUTES}),
    ("slow_syncs", {SYNC + '"0.524288"}': "0+1x120", SYNC + '"1.048576"}': "0+9x120", SYNC + '"+Inf"}': "0+9x120"}),
    ("redis_away", {f"leveret_redis_up{SERVER}": "0x120"}),
]
QUIET: list[tuple[str, dict[str, str]]] = [
    ("queue_depth", {metric("messages"): "10000x120"}),
    ("message_age", {metric("oldest_message_age_seconds"): "300x120"}),
    ("message_age", {metric("oldest_message_age_seconds"): "301x120", **GRAVEYARD}),
    ("consumer_lag", waiting(1_000, consumers=1)),
    ("consumer_lag", waiting(1_001, consumers=1) | GRAVEYARD),
    ("dead_letters", {metric("dead_letters_total", reason="rejected"): "0+1x120"}),
    ("error_rate", ended(failed=1, acked=200)),
    ("error_rate", ended(failed=1, acked=4)),  # of too few to mean anything
    ("processing_time", times(slow=1, quick=99)),
    ("no_consumers", waiting(1, consumers=1)),
    ("no_consumers", waiting(1, leases=1)),
    ("no_consumers", waiting(1, delivered="0+1x120")),
    ("no_consumers", waiting(0)),
    ("no_consumers", waiting(1) | GRAVEYARD),
    ("stream_lag", {LAG: "1000x120"}),
    ("revocation_list_expiry", {LISTS: "23000x120"}),
    ("server_down", {f"up{SERVER}": MINUTES}),
    ("link_down", {LINK: MINUTES}),
    ("slow_syncs", {SYNC + '"0.004096"}': "0+9x120", SYNC + '"+Inf"}': "0+9x120"}),
    ("redis_away", {f"leveret_redis_up{SERVER}": MINUTES}),
]


def case(name: str, rule: str, series: dict[str, str]) -> dict[str, Any]:
    """A test for promtool: a rule does not fire when these series have lasted long enough."""
    enough = "65m" if rule == "dead_letters" else "15m"
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": metric, "values": values} for metric, values in series.items()],
        "alert_rule_test": [{"eval_time": enough, "alertname": title(rule), "exp_alerts": []}],
    }


@pytest.fixture(scope="module")
def fired(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The cases in which promtool found the rule to fire; all in one run, since each takes its time to start."""
    need_program("promtool")
    folder = tmp_path_factory.mktemp("rules")
    cases = [case(f"fires {index}", *each) for index, each in enumerate(FIRES)]
    cases += [case(f"quiet {index}", *each) for index, each in enumerate(QUIET)]
    test = {"rule_files": [str(HERE / "rules.yml")], "tests": cases}
    (folder / "test.yml").write_text(json.dumps(test))  # JSON is YAML too
    done = subprocess.run(["promtool", "test", "rules", "test.yml"], cwd=folder, capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert "got:[" in said, said
    return set(re.findall(r"name: (\w+ \d+),", said))


def test_the_file_is_what_the_table_makes() -> None:
    assert (HERE / "rules.yml").read_text() == text(), "run python -m deploy.prometheus.make_rules"


def test_every_rule_of_ours_is_there() -> None:
    names = [rule.name for rule in (*RULES, *STREAM_RULES, *SERVER_RULES)]
    assert sorted(names) == sorted({rule for rule, _ in FIRES})
    assert all(f"alert: {title(name)}\n" in text() for name in names)


def test_prometheus_can_read_rules_and_configuration() -> None:
    need_program("promtool")
    for what, name in (("rules", "rules.yml"), ("config", "prometheus.yml")):
        done = subprocess.run(["promtool", "check", what, name], cwd=HERE, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("index", range(len(FIRES)), ids=[rule for rule, _ in FIRES])
def test_a_rule_fires(fired: set[str], index: int) -> None:
    assert f"fires {index}" in fired


@pytest.mark.parametrize("index", range(len(QUIET)), ids=[rule for rule, _ in QUIET])
def test_a_rule_stays_quiet(fired: set[str], index: int) -> None:
    assert f"quiet {index}" not in fired


def test_rules_look_at_metrics_that_there_are(whole: Scrape, per_object: Scrape) -> None:
    named = metrics_in([*map(expression, (*RULES, *STREAM_RULES)), *(rule.expression for rule in SERVER_RULES)])
    assert len(named) >= len(RULES)
    of_nodes = {each.family.name for each in CLUSTER}
    assert named - {"up"} - whole.names - per_object.names - of_nodes == set()
