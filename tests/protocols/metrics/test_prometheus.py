"""Prometheus itself, with our configuration and rules, on a busy broker."""

import json
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.amqp.processes import started
from deploy.prometheus.make_rules import HERE, SERVER_RULES, title
from tests.cluster.coordination.etcd_process import free_ports
from tests.parts import need_program
from tests.protocols.metrics.scene import fetch
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S

POLL_S = 0.25


class Prometheus:
    """A running one, by its API."""

    def __init__(self, port: int) -> None:
        self._port = port

    def ask(self, path: str, **query: str) -> Any:
        url = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return json.load(answer)["data"]

    def eventually(self, look: Callable[[], Any]) -> Any:
        """What a look gives as soon as it gives anything."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                found = look()
            except OSError:
                found = None
            if found:
                return found
            assert time.monotonic() < deadline, "Prometheus did not come so far"
            time.sleep(POLL_S)

    def value(self, expression: str) -> Any:
        """The samples of an expression, as soon as there are some."""
        return self.eventually(lambda: self.ask("query", query=expression)["result"])


@pytest.fixture(scope="module")
def prometheus(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    need_program("prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    config = (HERE / "prometheus.yml").read_text().replace("localhost:15672", f"127.0.0.1:{server.ports['http']}")
    config = config.replace("scrape_interval: 15s", "scrape_interval: 1s\n  evaluation_interval: 1s")
    (folder / "prometheus.yml").write_text(config)
    (folder / "rules.yml").write_bytes((HERE / "rules.yml").read_bytes())
    (port,) = free_ports(1)
    files = [f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
    with started(["prometheus", *files, f"--web.listen-address=127.0.0.1:{port}"], folder / "log"):
        yield Prometheus(port)


def test_both_jobs_are_scraped(prometheus: Prometheus) -> None:
    found = prometheus.eventually(lambda: len(prometheus.ask("query", query="up == 1")["result"]) == 2)
    assert found


def test_a_panel_of_rabbitmq_joins_with_the_identity(prometheus: Prometheus) -> None:
    joined = "* on(instance) group_left(rabbitmq_cluster, rabbitmq_node) rabbitmq_identity_info"
    (found,) = prometheus.value(f"sum(rabbitmq_queue_messages_ready {joined}) by(rabbitmq_node)")
    assert found["metric"]["rabbitmq_node"].startswith("leveret@")
    assert float(found["value"][1]) > 0


def test_quantiles_come_from_the_histograms(prometheus: Prometheus) -> None:
    (found,) = prometheus.value('histogram_quantile(0.5, leveret_queue_processing_seconds_bucket{queue="orders"})')
    assert 0 < float(found["value"][1]) < 60


def test_rules_are_judged_without_an_error(prometheus: Prometheus) -> None:
    def judged() -> dict[str, str] | None:
        rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
        found = {rule["name"]: rule["health"] for rule in rules}
        return found if "unknown" not in found.values() else None

    found = prometheus.eventually(judged)
    assert set(found.values()) == {"ok"}
    assert title(SERVER_RULES[0].name) in found


@pytest.mark.parametrize("path", ["/metrics", "/metrics/per-object"])
def test_names_and_types_are_as_prometheus_likes_them(server: ServerProcess, path: str) -> None:
    need_program("promtool")
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=fetch(server, path)[1], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
