"""The files for Prometheus and Grafana, read by promtool and as JSON; what they ask for is tested in
tests/protocols/metrics.
"""

import json
from collections.abc import Iterator

from tests.deploy.checks import DEPLOY, ran


def check_prometheus() -> Iterator[str]:
    """The configuration and the rules that it names."""
    yield from ran("promtool", "check", "config", "prometheus.yml", cwd=DEPLOY / "prometheus")


def check_grafana() -> Iterator[str]:
    """Each dashboard has an id of its own and panels."""
    boards = {path.name: json.loads(path.read_text()) for path in sorted((DEPLOY / "grafana").glob("*.json"))}
    yield from (f"{name} has no panels" for name, board in boards.items() if not board["panels"])
    if len({board["uid"] for board in boards.values()}) != len(boards):
        yield "two dashboards have the same id"
