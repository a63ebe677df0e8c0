"""What a scrape of a busy broker has, in either format."""

import pika
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open

from leveret.observability.exposition import Family
from leveret.protocols.metrics.broker import POSTGRES_FIGURES
from leveret.protocols.metrics.handler import WHOLE
from leveret.protocols.metrics.objects import GROUPS
from tests.protocols.metrics.scene import OPEN_METRICS, Scrape, fetch, scrape
from tests.server_process import ServerProcess

DETAILED = "/metrics/detailed?" + "&".join(f"family={name}" for name in GROUPS)
# Every metric that RabbitMQ's dashboard "RabbitMQ-Overview" draws, in its older form and in the newer one.
OVERVIEW = {
    "rabbitmq_build_info",
    "rabbitmq_identity_info",
    "rabbitmq_queue_messages_ready",
    "rabbitmq_queue_messages_unacked",
    "rabbitmq_queues",
    "rabbitmq_connections",
    "rabbitmq_channels",
    "rabbitmq_consumers",
    "rabbitmq_channel_consumers",
    "rabbitmq_global_publishers",
    "rabbitmq_global_consumers",
    "rabbitmq_resident_memory_limit_bytes",
    "rabbitmq_process_resident_memory_bytes",
    "rabbitmq_disk_space_available_bytes",
    "rabbitmq_process_open_fds",
    "rabbitmq_process_max_fds",
    "rabbitmq_process_open_tcp_sockets",
    "rabbitmq_process_max_tcp_sockets",
    "rabbitmq_connections_opened_total",
    "rabbitmq_connections_closed_total",
    "rabbitmq_channels_opened_total",
    "rabbitmq_channels_closed_total",
    "rabbitmq_queues_declared_total",
    "rabbitmq_queues_created_total",
    "rabbitmq_queues_deleted_total",
    "rabbitmq_queue_messages_published_total",
    "rabbitmq_channel_messages_unconfirmed",
    "rabbitmq_channel_messages_published_total",
    "rabbitmq_channel_messages_confirmed_total",
    "rabbitmq_channel_messages_unroutable_dropped_total",
    "rabbitmq_channel_messages_unroutable_returned_total",
    "rabbitmq_channel_messages_delivered_total",
    "rabbitmq_channel_messages_delivered_ack_total",
    "rabbitmq_channel_messages_redelivered_total",
    "rabbitmq_channel_messages_acked_total",
    "rabbitmq_channel_get_total",
    "rabbitmq_channel_get_ack_total",
    "rabbitmq_channel_get_empty_total",
    "rabbitmq_global_messages_received_total",
    "rabbitmq_global_messages_received_confirm_total",
    "rabbitmq_global_messages_confirmed_total",
    "rabbitmq_global_messages_routed_total",
    "rabbitmq_global_messages_unroutable_dropped_total",
    "rabbitmq_global_messages_unroutable_returned_total",
    "rabbitmq_global_messages_delivered_total",
    "rabbitmq_global_messages_redelivered_total",
    "rabbitmq_global_messages_acknowledged_total",
    "rabbitmq_global_messages_get_empty_total",
    "rabbitmq_global_messages_delivered_consume_auto_ack_total",
    "rabbitmq_global_messages_delivered_consume_manual_ack_total",
    "rabbitmq_global_messages_delivered_get_auto_ack_total",
    "rabbitmq_global_messages_delivered_get_manual_ack_total",
}


HERE = [each for each in WHOLE if each not in POSTGRES_FIGURES]
"""What a server on files has; tests/server/test_store.py scrapes one on PostgreSQL."""


def present(family: Family, names: set[str]) -> bool:
    return family.name in names or f"{family.name}_bucket" in names


def test_everything_in_the_tables_is_in_a_scrape(whole: Scrape) -> None:
    assert [each.family.name for each in HERE if not present(each.family, whole.names)] == []


def test_every_column_is_told_of_some_object(per_object: Scrape) -> None:
    families = [column.family for group in GROUPS.values() for column in group.columns]
    assert [family.name for family in families if not present(family, per_object.names)] == []


def test_the_dashboard_of_rabbitmq_finds_what_it_draws(whole: Scrape) -> None:
    assert OVERVIEW - whole.names == set()


def test_types_and_names_are_as_told(whole: Scrape, per_object: Scrape) -> None:
    told = {each.family.name.removesuffix("_total"): each.family.kind for each in HERE}
    assert {family.name: family.type for family in whole.families} == told
    assert len(per_object.families) == len({family.name for family in per_object.families})


@pytest.mark.parametrize("path", ["/metrics", "/metrics/per-object", DETAILED])
def test_open_metrics_has_the_same_families(server: ServerProcess, path: str) -> None:
    status, text, headers = fetch(server, path, Accept=OPEN_METRICS)
    assert (status, headers["Content-Type"]) == (200, "application/openmetrics-text; version=1.0.0; charset=utf-8")
    assert {family.name for family in parse_open(text)} == {family.name for family in scrape(server, path).families}
    assert text.endswith("# EOF\n")


def test_the_plain_format_says_which_it_is(server: ServerProcess) -> None:
    assert fetch(server, "/metrics")[2]["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_messages_are_counted_by_what_became_of_them(whole: Scrape) -> None:
    amqp, classic = {"protocol": "amqp091"}, {"queue_type": "rabbit_classic_queue"}
    assert whole.value("rabbitmq_global_messages_received_total", **amqp) == 11
    assert whole.value("rabbitmq_global_messages_received_confirm_total", **amqp) == 1
    assert whole.value("rabbitmq_global_messages_confirmed_total", **amqp) == 1
    assert whole.value("rabbitmq_global_messages_unroutable_dropped_total", **amqp) == 1
    assert whole.value("rabbitmq_global_messages_get_empty_total", **amqp) == 1
    assert whole.value("rabbitmq_global_messages_routed_total", **classic) == 9  # the dead letter is one of them
    assert whole.value("rabbitmq_global_messages_delivered_get_manual_ack_total", **classic) == 4
    quorum = {"queue_type": "rabbit_quorum_queue"}
    assert whole.value("rabbitmq_global_messages_delivered_get_auto_ack_total", **quorum) == 1
    assert whole.value("rabbitmq_global_messages_dead_lettered_rejected_total", **classic) == 1
    assert whole.value("leveret_dead_letters_total", reason="rejected") == 1
    assert whole.value("leveret_deliveries_failed_total") == 2
    assert whole.value("rabbitmq_queue_messages_unacked") == whole.value("leveret_leases") == 1
    assert whole.value("leveret_waiting_seconds_count") == 5
    assert whole.value("leveret_processing_seconds_count") == 3
    assert whole.value("leveret_messages_ready_by_priority", priority="0") == 5
    published = [
        value for (name, _), value in whole.samples.items() if name == "leveret_messages_published_by_priority_total"
    ]
    assert sum(published) == whole.value("rabbitmq_queue_messages_published_total")
    assert len(published) > 1
    assert whole.value("leveret_stream_group_lag", vhost="/", stream="events", group="readers") == 1
    assert whole.value("leveret_journal_sync_seconds_count") > 0
    assert whole.value("leveret_journal_commit_seconds_count") > 0


def test_a_queue_has_its_own_figures(per_object: Scrape) -> None:
    orders = {"vhost": "/", "queue": "orders"}
    assert per_object.value("rabbitmq_queue_messages_ready", **orders) == 5
    assert per_object.value("rabbitmq_queue_messages_unacked", **orders) == 1
    assert per_object.value("rabbitmq_queue_get_ack_total", **orders) == 4
    assert per_object.value("leveret_queue_failed_total", **orders) == 2
    assert per_object.value("leveret_queue_dead_letters_total", reason="rejected", **orders) == 1
    assert per_object.value("leveret_queue_messages_ready_by_priority", priority="0", **orders) == 4
    assert per_object.value("leveret_queue_published_by_priority_total", priority="1", **orders) == 4
    assert per_object.value("leveret_queue_waiting_seconds_count", **orders) == 4
    assert per_object.value("leveret_queue_graveyard", vhost="/", queue="dead") == 1
    assert per_object.value("rabbitmq_queue_consumers", vhost="/", queue="idle") == 1


def test_a_queue_that_never_had_a_message_costs_no_series_of_ours(per_object: Scrape) -> None:
    ours = {dict(labels).get("queue") for name, labels in per_object.samples if name.startswith("leveret_queue")}
    assert "idle" not in ours
    assert "orders" in ours


def test_counters_stay_when_channels_and_queues_go(server: ServerProcess) -> None:
    before = scrape(server)
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("short-lived")
        for _ in range(3):
            channel.basic_publish("", "short-lived", b"x")
        channel.queue_delete("short-lived")
        channel.close()
    after = scrape(server)
    received, routed = "rabbitmq_global_messages_received_total", "rabbitmq_global_messages_routed_total"
    classic = {"queue_type": "rabbit_classic_queue"}
    assert after.value(received, protocol="amqp091") == before.value(received, protocol="amqp091") + 3
    assert after.value(routed, **classic) == before.value(routed, **classic) + 3
