"""The SDK of AWS for JavaScript: the script beside this file."""

import os
import subprocess
from pathlib import Path

from tests.parts import NODE_MODULES, need_node_package
from tests.protocols.sqs.server import Server
from tests.waiting import PATIENCE_S

SCRIPT = Path(__file__).with_name("sdk.js")


def test_the_sdk(server: Server, name: str) -> None:
    need_node_package("@aws-sdk/client-sqs")
    environ = os.environ | server.environ | {"NODE_PATH": str(NODE_MODULES), "ENDPOINT": server.url, "QUEUE": name}
    command = ["node", str(SCRIPT)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.stdout == "finished\n", done.stdout + done.stderr
