"""Spans of a broker, as a collector gets them."""

from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.observability import spans
from tests.observability.collector import Collector, attributes

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
TRACED = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=1"}


def opened(collector: Collector, path: Path | None = None, **options: Any) -> leveret.Broker:
    return leveret.open(path, tracing=True, tracing_endpoint=collector.url, **options)


def test_the_life_of_a_message_is_one_trace(collector: Collector, tmp_path: Path) -> None:
    with opened(collector, tmp_path) as broker:
        orders = broker.queue("orders")
        sent = orders.send("x", headers=TRACED, properties={"correlation_id": "c1"})
        orders.send("not traced")
        for message in orders.receive(2):
            message.ack()
    publish, commit, deliver, ack = collector.wait_for(
        "publish orders", "commit orders", "deliver orders", "ack orders"
    )
    assert len(collector.spans) == 4
    assert {span.trace_id.hex() for span in collector.spans} == {TRACE}
    assert {span.trace_state for span in collector.spans} == {"vendor=1"}
    parents = [span.parent_span_id.hex() for span in (publish, commit, deliver, ack)]
    assert parents == [SPAN, publish.span_id.hex(), SPAN, deliver.span_id.hex()]
    assert publish.start_time_unix_nano <= commit.start_time_unix_nano <= commit.end_time_unix_nano
    assert attributes(publish) == {
        "messaging.system": "leveret",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders",
        "messaging.message.id": sent,
        "messaging.message.conversation_id": "c1",
        "messaging.message.body.size": 1,
        "messaging.rabbitmq.destination.routing_key": "orders",
        "messaging.leveret.queues": ["orders"],
        "messaging.leveret.vhost": "/",
    }
    assert attributes(ack)["messaging.operation.type"] == "settle"
    assert attributes(ack)["messaging.leveret.outcome"] == "acked"
    assert collector.services == {"leveret"}


def test_a_dead_letter_stays_in_its_trace(collector: Collector) -> None:
    with opened(collector) as broker:
        orders = broker.queue("orders", dead_letter="dlq")
        orders.send("x", headers=TRACED)
        orders.receive()[0].reject()
        assert broker.queue("dlq").receive()[0].headers["traceparent"] == TRACED["traceparent"]
    rejected, dead_lettered, delivered = collector.wait_for("reject orders", "publish dlq", "deliver dlq")
    assert {rejected.trace_id.hex(), dead_lettered.trace_id.hex(), delivered.trace_id.hex()} == {TRACE}


def test_a_message_without_a_context_is_the_first_of_its_trace(collector: Collector) -> None:
    with opened(collector, tracing_ratio=1) as broker:
        broker.queue("orders").send("x")
        (message,) = broker.queue("orders").receive()
        _, trace, span, _ = message.headers["traceparent"].split("-")
        message.nack(delay=0)
    publish, deliver, nack = collector.wait_for("publish orders", "deliver orders", "nack orders")
    assert (publish.trace_id.hex(), publish.span_id.hex(), publish.parent_span_id) == (trace, span, b"")
    assert deliver.parent_span_id == publish.span_id
    assert nack.parent_span_id == deliver.span_id


def test_a_trace_goes_on_after_a_restart(collector: Collector, tmp_path: Path) -> None:
    with opened(collector, tmp_path) as broker:
        broker.queue("orders").send("x", headers=TRACED)
    with opened(collector, tmp_path) as broker:
        broker.queue("orders").receive()[0].ack()
    deliver, ack = collector.wait_for("deliver orders", "ack orders")
    assert deliver.trace_id.hex() == TRACE
    assert ack.parent_span_id == deliver.span_id


def test_about_the_share_that_was_asked_for_is_traced(collector: Collector) -> None:
    with opened(collector, tracing_ratio=0.1, tracing_rate_max=0) as broker:
        orders = broker.queue("orders")
        orders.send_many([b"x"] * 10_000)
        traced = sum("traceparent" in message.headers for message in orders.receive(10_000))
    assert 500 < traced < 1_500


def test_a_collector_that_refuses_costs_spans_and_nothing_else(collector: Collector) -> None:
    collector.status = 400
    with opened(collector, tracing_ratio=1) as broker:
        broker.queue("orders").send("x")
        assert broker.queue("orders").receive()[0].body == "x"
        tracer = broker.runtime.tracer
    assert tracer is not None
    assert tracer.counts == {"exported": 0, "dropped": 2, "avoided": 0}


def test_a_stuck_collector_holds_up_neither_messages_nor_the_end(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans, "CLOSE_S", 0.05)
    collector.open.clear()
    with opened(collector, tracing_ratio=1, tracing_spans_max=4) as broker:
        orders = broker.queue("orders")
        orders.send_many([b"x"] * 100)
        assert len(orders.receive(100)) == 100
        tracer = broker.runtime.tracer
        assert tracer is not None
        # Of 200 spans four may wait, and four that waited before may be on their way.
        assert tracer.counts["dropped"] >= 192


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"tracing_endpoint": "ftp://x"}, "tracing_endpoint is a URL"),
        ({"tracing_ratio": 1.5}, "tracing_ratio is 0 to 1"),
        ({"tracing_spans_max": 0}, "tracing_spans_max must be positive"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(leveret.InvalidArgument, match=reason):
        leveret.open(tracing=True, **options)


def test_the_variables_of_opentelemetry_count(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url.removesuffix("/v1/traces"))
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop-broker")
    with leveret.open(tracing=True, tracing_ratio=1) as broker:
        broker.queue("orders").send("x")
    collector.wait_for("publish orders")
    assert collector.services == {"shop-broker"}


def test_a_broker_that_cannot_trace_leaves_its_directory_to_others(tmp_path: Path) -> None:
    with pytest.raises(leveret.InvalidArgument, match="tracing_endpoint is a URL"):
        leveret.open(tmp_path, tracing=True, tracing_endpoint="nowhere")
    with leveret.open(tmp_path) as broker:
        assert broker.queues() == []


def test_a_routing_key_that_is_no_text_is_told_nevertheless(collector: Collector) -> None:
    with opened(collector) as broker:
        fanout = broker.exchange("amq.fanout")
        fanout.bind(broker.queue("orders"))
        fanout.publish("caf\udce9", "x", headers=TRACED)
    (publish,) = collector.wait_for("publish amq.fanout")
    assert attributes(publish)["messaging.rabbitmq.destination.routing_key"] == "caf?"


def test_the_size_of_a_body_that_is_kept_elsewhere_is_not_guessed(collector: Collector, tmp_path: Path) -> None:
    with opened(collector, tmp_path, blob_bytes=100) as broker:
        broker.queue("orders").send(b"x" * 1_000, headers=TRACED)
    (publish,) = collector.wait_for("publish orders")
    assert "messaging.message.body.size" not in attributes(publish)
