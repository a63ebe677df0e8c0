"""Liveness and readiness, as supervisors ask for them."""

import json
from pathlib import Path

import pytest

import leveret
from leveret.protocols.http.request import HttpPeer, Request
from leveret.protocols.http.response import Response
from leveret.protocols.http.server import Health
from tests.protocols.metrics.scene import fetch
from tests.server_process import ServerProcess


@pytest.mark.parametrize("path", ["/health/live", "/health/ready"])
def test_a_running_server_is_well_and_says_so_to_everybody(server: ServerProcess, path: str) -> None:
    status, text, headers = fetch(server, path, X_Forwarded_For="192.0.2.1")
    assert (status, json.loads(text)["status"]) == (200, "ok")
    assert headers["Cache-Control"] == "no-store"


def test_a_server_works_without_the_redis_that_it_should_have(server: ServerProcess) -> None:
    status, text, _ = fetch(server, "/health/ready")
    assert (status, json.loads(text)["degraded"]) == (
        200,
        ["redis does not answer: limits are kept by each node alone"],
    )
    assert "redis does not answer" in server.text
    assert "hush" not in server.text


def asked(health: Health) -> tuple[int, list[str]]:
    answer = health.answer(Request("GET", b"/health/ready", {}, HttpPeer("192.0.2.1", 1)))
    assert isinstance(answer, Response)
    return answer.status, json.loads(answer.body)["reasons"]


def test_a_server_that_stops_is_not_ready(tmp_path: Path) -> None:
    with leveret.open(tmp_path) as broker:
        stopping = False
        health = Health(broker.runtime, lambda: stopping, lambda: None)
        assert asked(health) == (200, [])
        stopping = True
        assert asked(health) == (503, ["the server stops"])


def test_a_closed_broker_is_not_ready(tmp_path: Path) -> None:
    with leveret.open(tmp_path) as broker:
        health = Health(broker.runtime, lambda: False, lambda: None)
    assert asked(health) == (503, ["the broker is closed"])


def test_an_alarm_is_told_and_consumers_may_come(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--disk-alarm-bytes", str(1 << 60)) as server:
        server.wait_for("alarm")
        status, text, _ = fetch(server, "/health/ready")
        assert (status, json.loads(text)["alarm"]) == (200, "low on disk")
