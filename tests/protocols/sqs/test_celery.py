"""Celery over sqs://, with a worker process."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.clients.celery_worker import make_app
from tests.protocols.sqs.server import KEY, REGION, SECRET, Server
from tests.sources import ROOT
from tests.waiting import PATIENCE_S


def settings(server: Server, name: str, folder: Path) -> dict[str, Any]:
    address = server.url.removeprefix("http://")
    return {
        "broker_url": f"sqs://{quote(KEY, safe='')}:{quote(SECRET, safe='')}@{address}//",
        "broker_transport_options": {"region": REGION, "is_secure": False, "wait_time_seconds": 1},
        "result_backend": f"file://{folder}",
        "task_default_queue": name,
        "worker_send_task_events": False,
        "worker_enable_remote_control": False,
    }


def test_tasks_are_done(server: Server, name: str, tmp_path: Path) -> None:
    given = settings(server, name, tmp_path)
    app = make_app(given)
    log = tmp_path / "worker.log"
    command = [sys.executable, "-m", "tests.clients.celery_worker", json.dumps(given)]
    with log.open("w") as output, subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output) as worker:
        try:
            results = [app.send_task("add", (number, number)) for number in range(5)]
            assert [result.get(timeout=PATIENCE_S) for result in results] == [0, 2, 4, 6, 8], log.read_text()
            assert app.send_task("flaky", (1, 1)).get(timeout=PATIENCE_S) == 1
        finally:
            worker.terminate()
            worker.wait(PATIENCE_S)
            app.close()
