"""The trace contexts of the application that we run in, if it has OpenTelemetry.

Nothing is imported to find out: an application that traces has imported it before. What is sent carries the context of
the current span; what is worked on is a span `process` under that of its sender, by the tracer of the application.
"""

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from leveret.core.tracing import TRACEPARENT, TRACESTATE
from leveret.observability.trace_context import CONTEXT_CHARS_MAX, TraceContext, context_of

API = "opentelemetry.trace"
_NOTHING: dict[str, str] = {}


def context_headers() -> dict[str, str]:
    """The headers that carry the context of the current span; none when there is no span."""
    trace = sys.modules.get(API)
    if trace is None:
        return _NOTHING
    found = trace.get_current_span().get_span_context()
    if not found.is_valid:
        return _NOTHING
    headers = {TRACEPARENT: TraceContext(found.trace_id, found.span_id, found.trace_flags.sampled).traceparent}
    state = found.trace_state.to_header()
    return {**headers, TRACESTATE: state} if 0 < len(state) <= CONTEXT_CHARS_MAX else headers


def traced(headers: dict[str, Any] | None) -> dict[str, Any] | None:
    """The headers of a message with the context of the current span, unless they bring one."""
    own = context_headers()
    if not own or (headers is not None and TRACEPARENT in headers):
        return headers
    return {**(headers or {}), **own}


def processing(queue: str, message_id: str, headers: Mapping[str, Any]) -> AbstractContextManager[object]:
    """The span in which a message is worked on, as the current one."""
    trace = sys.modules.get(API)
    if trace is None:
        return nullcontext()
    attributes = {
        "messaging.system": "leveret",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": queue,
        "messaging.message.id": message_id,
    }
    span: AbstractContextManager[object] = trace.get_tracer("leveret").start_as_current_span(
        f"process {queue}", context=_parent(trace, headers), kind=trace.SpanKind.CONSUMER, attributes=attributes
    )
    return span


def _parent(trace: Any, headers: Mapping[str, Any]) -> object:
    """What a message says about where it comes from; None: nothing."""
    context = context_of(headers)
    if context is None:
        return None
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if context.sampled else trace.TraceFlags.DEFAULT)
    state = trace.TraceState.from_header([context.state]) if context.state else None
    remote = trace.SpanContext(context.trace_id, context.span_id, True, flags, state)
    return trace.set_span_in_context(trace.NonRecordingSpan(remote))
