"""The clients for Node: every scenario of the scripts in tests/clients/node is a test."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.clients.conftest import Broker
from tests.parts import NODE_MODULES, NODE_PACKAGES, need_node_package
from tests.waiting import PATIENCE_S

SCRIPTS = Path(__file__).parent / "node"
SCENARIO = re.compile(r"^  async (\w+)\(", re.MULTILINE)


def scenarios() -> list[tuple[str, str]]:
    """Every package with every scenario that its script has."""
    scripts = {name: SCRIPTS / f"{name}.js" for name in NODE_PACKAGES}
    found = ((name, script.read_text()) for name, script in scripts.items() if script.exists())
    return [(name, scenario) for name, text in found for scenario in SCENARIO.findall(text)]


@pytest.mark.parametrize(("package", "scenario"), scenarios())
def test_node(broker: Broker, package: str, scenario: str) -> None:
    need_node_package(package)
    done = subprocess.run(
        ["node", str(SCRIPTS / f"{package}.js"), broker.url, scenario],
        env=os.environ | {"NODE_PATH": str(NODE_MODULES)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.stdout == "finished\n", done.stdout + done.stderr
