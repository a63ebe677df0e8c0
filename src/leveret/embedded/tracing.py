"""Tracing as the options of a broker ask for it."""

from leveret.config import Options
from leveret.embedded.guard import Guard
from leveret.telemetry.otlp import OtlpSender
from leveret.telemetry.spans import Spans
from leveret.telemetry.tracing import BrokerTracer


def start_tracing(guard: Guard, options: Options) -> None:
    """Send spans to a collector from now on, until the guard is closed."""
    store, core = guard.store, guard.core

    def pending() -> int:
        return 0 if store is None else store.commit.pending

    spans = Spans(OtlpSender(options.tracing_endpoint), options.tracing_spans_max)
    guard.tracer = core.tracer = BrokerTracer(
        guard.clock, spans, core.tag, pending, ratio=options.tracing_ratio, rate_max=options.tracing_rate_max
    )
