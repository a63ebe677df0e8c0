"""The dashboards for Grafana: made from our tables, of expressions that Prometheus reads and metrics that exist."""

import json
import re
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from deploy.grafana.make_dashboards import COLUMNS, DASHBOARDS, HERE, dashboard, text
from tests.parts import need_program
from tests.protocols.metrics.names import metrics_in
from tests.protocols.metrics.scene import Scrape


def expressions(uid: str) -> list[str]:
    return [target["expr"] for panel in dashboard(uid)["panels"] for target in panel["targets"]]


def boxes(uid: str) -> list[dict[str, int]]:
    return [panel["gridPos"] for panel in dashboard(uid)["panels"]]


@pytest.mark.parametrize("uid", DASHBOARDS)
def test_a_file_is_what_the_table_makes(uid: str) -> None:
    assert (HERE / f"{uid}.json").read_text() == text(uid), "run python -m deploy.grafana.make_dashboards"


@pytest.mark.parametrize("uid", DASHBOARDS)
def test_dashboards_draw_metrics_that_there_are(uid: str, whole: Scrape, per_object: Scrape) -> None:
    named = metrics_in(expressions(uid))
    assert named
    assert named - {"up"} - whole.names - per_object.names == set()


def test_prometheus_understands_every_expression(tmp_path: Path) -> None:
    need_program("promtool")
    known = {"$__rate_interval": "1m", "$instance": ".*", "$vhost": ".*", "$queue": ".*"}
    rules = []
    for number, expression in enumerate(each for uid in DASHBOARDS for each in expressions(uid)):
        plain = re.sub(r"\$\w+", lambda found: known[found[0]], expression)
        rules.append({"record": f"test:expression_{number}", "expr": plain})
    groups: dict[str, Any] = {"groups": [{"name": "dashboards", "rules": rules}]}
    (tmp_path / "rules.yml").write_text(json.dumps(groups))
    done = subprocess.run(["promtool", "check", "rules", "rules.yml"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(rules)} rules found" in done.stdout


@pytest.mark.parametrize("uid", DASHBOARDS)
def test_panels_lie_beside_each_other(uid: str) -> None:
    cells = []
    for box in boxes(uid):
        cells += list(product(range(box["x"], box["x"] + box["w"]), range(box["y"], box["y"] + box["h"])))
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < COLUMNS


@pytest.mark.parametrize("uid", DASHBOARDS)
def test_what_is_drawn_has_a_name_and_a_place_of_its_own(uid: str) -> None:
    for panel in dashboard(uid)["panels"]:
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        assert all(target["legendFormat"] for target in panel["targets"])
