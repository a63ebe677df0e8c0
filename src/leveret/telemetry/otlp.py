"""Spans to a collector by OTLP over HTTP, with what OpenTelemetry has for that; the extra `tracing` brings it.

The variables of OpenTelemetry count where an option says nothing: OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS, _TIMEOUT,
_COMPRESSION and _CERTIFICATE, each also with TRACES_ in it, OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from leveret.core.errors import InvalidArgument
from leveret.telemetry.spans import Span

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

SERVICE = "leveret"


class OtlpSender:
    """A collector, by its URL; see Sender."""

    def __init__(self, endpoint: str | None) -> None:
        """Send to this URL (with /v1/traces at its end), or to the one that OpenTelemetry's variables name."""
        if endpoint is not None and urlsplit(endpoint).scheme not in ("http", "https"):
            raise InvalidArgument("tracing_endpoint is a URL such as http://127.0.0.1:4318/v1/traces")
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import OTELResourceDetector, Resource
            from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        except ImportError:
            raise InvalidArgument("tracing needs OpenTelemetry: pip install 'leveret[tracing]'") from None
        self._exporter: SpanExporter = OTLPSpanExporter(endpoint)
        self._resource = Resource({"service.name": SERVICE}).merge(OTELResourceDetector().detect())
        self._scope = InstrumentationScope(SERVICE)

    def send(self, spans: list[Span]) -> bool:
        """See Sender."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        return self._exporter.export([self._readable(span) for span in spans]) is SpanExportResult.SUCCESS

    def close(self) -> None:
        """See Sender."""
        self._exporter.shutdown()

    def _readable(self, span: Span) -> ReadableSpan:
        """A span as OpenTelemetry has it."""
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace import SpanContext, SpanKind, TraceFlags, TraceState

        state = TraceState.from_header([span.state]) if span.state else TraceState()
        flags = TraceFlags(TraceFlags.SAMPLED)
        parent = SpanContext(span.trace_id, span.parent_id, True, flags, state) if span.parent_id else None
        return ReadableSpan(
            span.name,
            context=SpanContext(span.trace_id, span.span_id, False, flags, state),
            parent=parent,
            resource=self._resource,
            attributes=span.attributes,
            kind=SpanKind[span.kind],
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=self._scope,
        )
