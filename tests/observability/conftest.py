"""What the tests of tracing share."""

from collections.abc import Iterator

import pytest

from leveret.observability import otlp, spans
from tests.observability.collector import Collector
from tests.waiting import PATIENCE_S


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector that nobody gives up because the machine is slow."""
    monkeypatch.setattr(spans, "CLOSE_S", PATIENCE_S)
    monkeypatch.setattr(otlp, "TIMEOUT_S", PATIENCE_S)
    with Collector() as listening:
        yield listening
