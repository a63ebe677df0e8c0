"""Tracing as the options of a broker ask for it."""

import os

from leveret.config import Options
from leveret.core.errors import InvalidArgument
from leveret.observability.otlp import OtlpSender
from leveret.observability.spans import Spans
from leveret.observability.tracing import BrokerTracer
from leveret.runtime.runtime import Guard


def start_tracing(guard: Guard, options: Options) -> None:
    """Send spans to a collector from now on, until the guard is closed; closes it if that cannot be."""
    store, core = guard.store, guard.core

    def pending() -> int:
        return 0 if store is None else store.commit.pending

    try:
        sender = OtlpSender(options.tracing_endpoint, os.environ)
    except InvalidArgument:
        guard.close()
        raise
    guard.tracer = core.engine.tracer = BrokerTracer(
        guard.clock,
        Spans(sender, options.tracing_spans_max),
        core.tag,
        pending,
        ratio=options.tracing_ratio,
        rate_max=options.tracing_rate_max,
    )
