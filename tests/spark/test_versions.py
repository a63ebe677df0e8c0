"""The oldest version of Spark that is supported, and the one that is installed: a job of each kind on both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import need
from tests.server_process import ServerProcess
from tests.sources import ROOT
from tests.spark.history import small_history
from tests.spark.test_archive import work

OLDEST = Path(sys.prefix) / "spark-oldest"
RUN_S = 600


@pytest.mark.spark_slow
@pytest.mark.timeout(RUN_S)
@pytest.mark.parametrize("version", ["oldest", "installed"])
def test_a_version_of_spark_does_what_its_api_allows(version: str, tmp_path: Path) -> None:
    path = [str(ROOT / "src"), str(ROOT)]
    if version == "oldest":
        need((OLDEST / "pyspark").exists(), "the oldest Spark; run `make spark-slow`")
        path.insert(0, str(OLDEST))
    small_history(tmp_path / "data")
    work(tmp_path / "busy", tmp_path / "handed", 30)
    (tmp_path / "server").mkdir()
    with ServerProcess(tmp_path / "server") as server:
        with server.client() as client:
            client.stream("clicks", partitions=2).send_many([b"%d" % number for number in range(40)])
            client.queue("orders")
        words = [sys.executable, "-m", "tests.spark.version_child", str(tmp_path), server.http_url]
        environ = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
        done = subprocess.run(words, env=environ, cwd=ROOT, capture_output=True, timeout=RUN_S)
        assert done.returncode == 0, done.stderr.decode()[-4000:]
        told = json.loads(done.stdout)
    assert told.pop("version").startswith("4.0." if version == "oldest" else "4.")
    refused = {"queue as a stream": "needs Spark 4.2", "maxRecordsPerTrigger": "needs Spark 4.2"}
    assert told.pop("refused") == (refused if version == "oldest" else {})
    segments, archived = told.pop("archived")
    assert archived == segments >= 10
    assert told == {
        "events of the journal": 5,
        "records of the stream": 40,
        "records that the query read": [40, 10],
        "messages of the queue": 50,
        "lives": 6,
        "rows for a job under test": 2,
        "real time": "refused",
    }
