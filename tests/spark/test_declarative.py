"""Spark's Declarative Pipelines with a stream and a queue: the example, run twice as users run it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from tests.conftest import need
from tests.server_process import ServerProcess
from tests.sources import ROOT
from tests.spark.cluster import CONNECT_PATH

EXAMPLE = ROOT / "examples" / "spark_pipeline"
RUN_S = 600


@pytest.mark.spark_slow
@pytest.mark.timeout(2 * RUN_S)
def test_a_declarative_pipeline_goes_on_where_its_last_update_ended(tmp_path: Path) -> None:
    need(CONNECT_PATH.exists(), "what Spark Connect needs; run `make spark-slow`")
    project = tmp_path / "clicks"
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "server").mkdir()
    with ServerProcess(tmp_path / "server") as server, server.client() as client:
        spec = project / "spark-pipeline.yml"
        text = spec.read_text().replace("/tmp/leveret-clicks", str(tmp_path / "storage"))
        spec.write_text(text.replace("http://guest:guest@127.0.0.1:15672", server.http_url))
        clicks, queue = client.stream("clicks", partitions=2), client.queue("large-clicks")
        clicks.send_many([b"%d" % number for number in range(120)])
        update(project)
        assert queue.stats().ready == 20
        clicks.send_many([b"more", b"%d" % 7])
        update(project)
        assert queue.stats().ready == 21


def update(project: Path) -> None:
    """One update of the pipeline."""
    home = Path(pyspark.__file__).parent
    path = os.pathsep.join(map(str, (ROOT / "src", CONNECT_PATH)))
    environ = os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1"}
    settings = ("spark.sql.catalogImplementation=hive", "spark.ui.enabled=false", "spark.driver.memory=512m")
    words = [str(home / "bin" / "spark-pipelines"), "run", *(word for each in settings for word in ("--conf", each))]
    done = subprocess.run(words, env=environ, cwd=project, capture_output=True, timeout=RUN_S)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()[-6000:]
