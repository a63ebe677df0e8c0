"""Spans on the wire: read by OpenTelemetry's own decoder, sent again where that helps, and to the right place."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from leveret.core.errors import InvalidArgument
from leveret.observability import otlp
from leveret.observability.otlp import OtlpSender, pairs, url_of
from leveret.observability.otlp_wire import KINDS, request
from leveret.observability.spans import TraceSpan
from tests.observability.collector import Collector, attributes
from tests.waiting import PATIENCE_S

SPAN = TraceSpan("publish orders", "SERVER", 1, 2, 0, "", 0, 1, {})

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
values = texts | st.integers(-(2**63), 2**63 - 1) | st.lists(texts, max_size=3)
spans = st.builds(
    TraceSpan,
    texts,
    st.sampled_from(sorted(KINDS)),
    st.integers(1, 2**128 - 1),
    st.integers(1, 2**64 - 1),
    st.integers(0, 2**64 - 1),
    texts,
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
    st.dictionaries(texts | st.just("messaging.message.id"), values, max_size=12),
)


@given(st.lists(spans, max_size=20), st.dictionaries(texts, texts, max_size=3))
def test_what_is_written_is_read_by_others(sent: list[TraceSpan], resource: dict[str, str]) -> None:
    (told,) = ExportTraceServiceRequest.FromString(request(resource, sent)).resource_spans
    assert {each.key: each.value.string_value for each in told.resource.attributes} == resource
    (scope,) = told.scope_spans
    assert scope.scope.name == "leveret"
    read = [
        TraceSpan(
            each.name,
            next(name for name, kind in KINDS.items() if kind == each.kind),
            int.from_bytes(each.trace_id, "big"),
            int.from_bytes(each.span_id, "big"),
            int.from_bytes(each.parent_span_id, "big"),
            each.trace_state,
            each.start_time_unix_nano,
            each.end_time_unix_nano,
            attributes(each),  # type: ignore[arg-type]
        )
        for each in scope.spans
    ]
    assert read == sent


def test_a_collector_that_is_busy_is_asked_again(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "WAITS_S", (0.001, 0.001))
    sender = OtlpSender(collector.url, {})
    collector.statuses = [503, 429, 200]
    assert sender.send([SPAN])
    collector.statuses = [502, 504, 503, 200]
    assert not sender.send([SPAN])
    collector.statuses = [400, 200]
    assert not sender.send([SPAN])
    sender.close()
    assert len(collector.spans) == 1


def test_a_sender_that_waits_for_an_answer_can_be_closed(collector: Collector) -> None:
    collector.open.clear()
    sender = OtlpSender(collector.url, {})
    sent: list[bool] = []
    thread = threading.Thread(target=lambda: sent.append(sender.send([SPAN])))
    thread.start()
    assert collector.asked.wait(PATIENCE_S)
    sender.close()
    thread.join()
    assert sent == [False]


def test_who_does_not_answer_is_given_up(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "WAITS_S", ())
    monkeypatch.setattr(otlp, "TIMEOUT_S", 0.01)
    collector.open.clear()
    for url in (collector.url, "http://127.0.0.1:1"):
        sender = OtlpSender(url, {})
        assert not sender.send([SPAN])
        sender.close()


def test_headers_and_compression_are_those_of_the_variables(collector: Collector) -> None:
    environ = {
        "OTEL_EXPORTER_OTLP_HEADERS": "api-key=not this",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "api-key=a%20secret, tenant=shop",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        "OTEL_RESOURCE_ATTRIBUTES": "service.name=by-attribute,deployment.environment=test",
    }
    sender = OtlpSender(collector.url, environ)
    assert sender.send([SPAN])
    sender.close()
    assert (collector.headers["api-key"], collector.headers["tenant"]) == ("a secret", "shop")
    assert collector.headers["Content-Encoding"] == "gzip"
    assert collector.services == {"by-attribute"}


@pytest.mark.parametrize(
    ("endpoint", "environ", "url"),
    [
        (None, {}, "http://localhost:4318/v1/traces"),
        ("https://here/v1/traces", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://there"}, "https://here/v1/traces"),
        ("http://here:1", {}, "http://here:1/v1/traces"),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://there:1/base/"}, "http://there:1/base/v1/traces"),
        (None, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://there:1/other"}, "http://there:1/other"),
    ],
)
def test_where_spans_go(endpoint: str | None, environ: dict[str, str], url: str) -> None:
    assert url_of(endpoint, environ).geturl() == url


@pytest.mark.parametrize("endpoint", ["nowhere", "ftp://x", "http://", "http://x:99999", "http://[x"])
def test_what_is_no_url_is_refused(endpoint: str) -> None:
    with pytest.raises(InvalidArgument, match="tracing_endpoint is a URL"):
        url_of(endpoint, {})


def test_pairs_without_a_value_are_left_out() -> None:
    assert pairs("a=1,,b,c=x=y") == {"a": "1", "c": "x=y"}
