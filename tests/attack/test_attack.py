"""The floods and the clients of `make attack` run; what they measure is not looked at here."""

import json

from tests.attack.__main__ import as_row, met
from tests.attack.clients import KINDS


def test_a_flood_is_met_by_clients_of_every_protocol() -> None:
    row = met("amqp-frames", seconds=1.0)
    assert set(row.p99_ms) == set(KINDS)
    assert row.failures == []
    assert row.peak_bytes > 0


def test_a_client_that_is_not_served_makes_a_row_bad() -> None:
    seen = {"latencies_ms": [1.0, 2.0], "failures": []}
    good = as_row("none", {"amqp": seen}, peak_bytes=1, used_s=0.0)
    slow = as_row("none", {"amqp": {**seen, "latencies_ms": [1.0, 300.0]}}, peak_bytes=1, used_s=0.0)
    large = as_row("none", {"amqp": seen}, peak_bytes=1 << 40, used_s=0.0)
    refused = as_row("none", json.loads('{"amqp": {"latencies_ms": [1], "failures": ["reset"]}}'), 1, 0.0)
    assert [row.is_good for row in (good, slow, large, refused)] == [True, False, False, False]
