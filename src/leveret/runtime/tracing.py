"""Tracing as the options of a broker ask for it."""

import os

from leveret.config import Options
from leveret.core.errors import InvalidArgument
from leveret.observability.otlp import OtlpSender
from leveret.observability.spans import Spans
from leveret.observability.tracing import BrokerTracer
from leveret.runtime.runtime import Runtime


def start_tracing(runtime: Runtime, options: Options) -> None:
    """Send spans to a collector from now on, until the runtime is closed; closes it if that cannot be."""
    store, core = runtime.store, runtime.core

    def pending() -> int:
        return 0 if store is None else store.commit.pending

    try:
        sender = OtlpSender(options.tracing_endpoint, os.environ)
    except InvalidArgument:
        runtime.close()
        raise
    runtime.tracer = core.engine.tracer = BrokerTracer(
        runtime.clock,
        Spans(sender, options.tracing_spans_max),
        core.tag,
        pending,
        ratio=options.tracing_ratio,
        rate_max=options.tracing_rate_max,
    )
