"""Who may scrape, and what is refused."""

import socket
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import leveret
from leveret.protocols.metrics.handler import LONG_ONES_MAX
from tests.protocols.management.scene import Api
from tests.protocols.metrics.scene import fetch, scrape
from tests.server_process import ServerProcess
from tests.waiting import wait_until

FROM_AFAR = {"X_Forwarded_For": "192.0.2.1", "X_Forwarded_Proto": "https"}


def login(name: str, password: str = "long enough") -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(f'{name}:{password}'.encode()).decode()}"}


def test_this_machine_needs_no_login(server: ServerProcess) -> None:
    assert fetch(server, "/metrics")[0] == 200


@pytest.mark.parametrize("header", ["Forwarded", "X_Forwarded_For", "Via"])
def test_what_comes_through_a_proxy_needs_one(server: ServerProcess, header: str) -> None:
    status, _, headers = fetch(server, "/metrics", **{header: "for=192.0.2.1"})
    assert status == 401
    assert "Basic" in headers["WWW-Authenticate"]


@pytest.mark.parametrize(
    ("tags", "status"), [("monitoring", 200), ("administrator", 200), ("management", 403), ("", 403)]
)
def test_others_need_a_tag(server: ServerProcess, tags: str, status: int) -> None:
    name = f"user-{tags}"
    Api(server.ports["http"]).put(f"/users/{name}", {"password": "long enough", "tags": tags})
    for path in ("/metrics", "/metrics/per-object", "/metrics/detailed?family=queue_metrics"):
        assert fetch(server, path, **FROM_AFAR, **login(name))[0] == status


def test_everybody_may_if_the_operator_says_so(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--metrics-public") as server:
        assert fetch(server, "/metrics", **FROM_AFAR)[0] == 200


def test_families_are_asked_for_by_their_names(server: ServerProcess) -> None:
    found = scrape(server, "/metrics/detailed?family=queue_coarse_metrics&family=queue_consumer_count")
    assert found.names == {
        f"rabbitmq_detailed_queue_{name}" for name in ("messages", "messages_ready", "messages_unacked", "consumers")
    }


def test_a_metric_that_is_in_two_families_is_told_once(server: ServerProcess) -> None:
    found = scrape(server, "/metrics/detailed?family=queue_metrics&family=queue_consumer_count")
    assert [family.name for family in found.families].count("rabbitmq_detailed_queue_consumers") == 1


def test_virtual_hosts_are_chosen(server: ServerProcess) -> None:
    Api(server.ports["http"]).put("/vhosts/other")
    asked = "/metrics/detailed?family=queue_coarse_metrics&family=connection_metrics"
    assert scrape(server, f"{asked}&vhost=other").samples == {}
    assert scrape(server, f"{asked}&vhost=other&vhost=%2F").samples.keys() == scrape(server, asked).samples.keys()


@pytest.mark.parametrize(
    "query", ["", "?family=", "?family=nothing", "?vhost=%2F", "?family=%ff", "?" + "f=1&" * 1_001]
)
def test_a_request_for_what_is_not_there_is_refused(server: ServerProcess, query: str) -> None:
    status, text, _ = fetch(server, f"/metrics/detailed{query}")
    assert status == 400
    assert "family" in text or "1000 fields" in text


@pytest.mark.parametrize("path", ["/metrics/nothing", "/metrics/"])
def test_other_paths_are_not_there(server: ServerProcess, path: str) -> None:
    assert fetch(server, path)[0] == 404


def test_long_scrapes_are_made_one_after_the_other(tmp_path: Path) -> None:
    """More than a few at the same time are refused, and those that were given up do not count for ever."""
    with leveret.open(tmp_path / "data", sync="never") as broker:
        broker.declare_queues([f"queue-{number:0200d}" for number in range(3_000)])
    with ServerProcess(tmp_path) as server:
        with ExitStack() as stack:
            for _ in range(LONG_ONES_MAX):
                stack.enter_context(begun(server))
            status, text, headers = fetch(server, "/metrics/per-object")
            assert (status, headers["Retry-After"]) == (429, "1"), text[:200]
            assert fetch(server, "/metrics")[0] == 200
        wait_until(lambda: fetch(server, "/metrics/per-object")[0] == 200)


@contextmanager
def begun(server: ServerProcess) -> Iterator[None]:
    """A scrape of which only the beginning is read."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.connect(("127.0.0.1", server.ports["http"]))
        client.sendall(b"GET /metrics/per-object HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 200"
        yield


def test_who_asks_too_often_is_counted_and_local_scrapes_are_not_refused(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--metrics-public", "--http-rate-max", "1", "--http-burst-max", "1") as server:
        wait_until(lambda: fetch(server, "/metrics", **FROM_AFAR)[0] == 429)
        assert scrape(server).value("leveret_rate_limited_requests_total") == 1
