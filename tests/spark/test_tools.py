"""Other tools on an archive: the examples for Grafana, dbt and Airflow."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from leveret.spark.archive import opened
from tests.conftest import need
from tests.sources import ROOT
from tests.spark.history import rows_of
from tests.spark.test_archive import work
from tests.spark.test_iceberg import MIDNIGHT, events, extended, filled, put

EXAMPLES = ROOT / "examples"
BOARD = EXAMPLES / "grafana" / "leveret-history.json"
RUN_S = 600


def run(*words: str | Path, cwd: Path, **environ: str) -> str:
    """What a tool prints; it ends well."""
    done = subprocess.run([*map(str, words)], env=os.environ | environ, cwd=cwd, capture_output=True, timeout=RUN_S)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said[-6000:]
    return said


def python_of(tool: str) -> Path:
    """The Python of a tool that has an environment of its own."""
    python = Path(sys.prefix) / tool / "bin" / "python"
    need(python.exists(), f"{tool}; run `make spark-slow`")
    return python


def test_each_panel_of_the_dashboard_shows_what_is_in_the_archive(tmp_path: Path) -> None:
    settled = {"event": "settled", "reason": "expired", "held_ms": 7}
    with opened(str(tmp_path)) as tables:
        for queue, told in (
            ("orders", {"event": "published"}),
            ("invoices", {"event": "published"}),
            ("orders", settled),
        ):
            batch = events(queue, MIDNIGHT, 1)
            put(tables, pa.RecordBatch.from_pylist([batch.to_pylist()[0] | told], batch.schema))
    board = json.loads(BOARD.read_text())
    variables = {
        "${__from}": str(int((MIDNIGHT - timedelta(minutes=1)).timestamp() * 1000)),
        "${__to}": str(int((MIDNIGHT + timedelta(days=1)).timestamp() * 1000)),
        "${__interval_ms}": "60000",
        "${archive}": str(tmp_path),
        "${queue:sqlstring}": "'orders', 'invoices'",
    }

    def filled_in(sql: str) -> str:
        for name, value in variables.items():
            sql = sql.replace(name, value)
        return sql

    with extended(duckdb.connect()) as connection:
        (choice,) = [each["query"] for each in board["templating"]["list"] if each["name"] == "queue"]
        assert connection.sql(filled_in(choice)).fetchall() == [("invoices",), ("orders",)]
        answers = []
        for panel in board["panels"]:
            (target,) = panel["targets"]
            asked = filled_in(target["rawSql"])
            if panel["type"] == "timeseries":
                assert target["format"] == "time_series"
                asked = f"select metric, value from ({asked}) order by all"
            answers.append(connection.sql(asked).fetchall())
    assert answers == [
        [("invoices", 1), ("orders", 1)],
        [("expired", 1)],
        [("orders", 7)],
        [("orders", 1, 1, 0), ("invoices", 1, 0, 0)],
    ]


@pytest.mark.spark_slow
@pytest.mark.timeout(RUN_S)
def test_dbt_makes_a_table_of_the_archive_and_brings_it_up_to_date(tmp_path: Path) -> None:
    python, archive, project = python_of("dbt"), tmp_path / "archive", tmp_path / "project"
    shutil.copytree(EXAMPLES / "dbt", project)
    filled(str(archive))
    with duckdb.connect() as connection:
        ((platform,),) = connection.sql("pragma platform").fetchall()
    place = tmp_path / ".duckdb" / "extensions" / f"v{duckdb.__version__}" / platform
    place.mkdir(parents=True)
    for name in ("avro", "iceberg"):  # as `install` of DuckDB does, from a site of its own
        package = Path(str(import_module(f"duckdb_extension_{name}").__file__)).parent
        shutil.copy(package / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension", place)
    environ = {"HOME": str(tmp_path), "LEVERET_ARCHIVE": str(archive), "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}

    def hours() -> list[tuple[str, int]]:
        run(python, "-m", "dbt.cli.main", "build", "--profiles-dir", ".", cwd=project, **environ)
        with duckdb.connect(str(project / "history.duckdb"), read_only=True) as connection:
            return connection.sql("select queue, hour(hour) from queue_hours order by all").fetchall()

    assert hours() == [("invoices", 0), ("orders", 0), ("orders", 23)]
    with opened(str(archive)) as tables:
        put(tables, events("orders", MIDNIGHT + timedelta(hours=1)))
    assert hours() == [("invoices", 0), ("orders", 0), ("orders", 1), ("orders", 23)]


@pytest.mark.spark_slow
@pytest.mark.timeout(2 * RUN_S)
def test_airflow_keeps_an_archive_and_makes_a_report(tmp_path: Path) -> None:
    python = python_of("airflow")
    handed, archive = tmp_path / "handed", tmp_path / "archive"
    work(tmp_path / "data", handed, 30)
    published = sum(row["event"] == "published" for row in rows_of(handed))
    environ = {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(EXAMPLES / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "LEVERET_DATA": str(tmp_path / "data"),
        "LEVERET_ARCHIVE_DIR": str(handed),
        "LEVERET_ARCHIVE": str(archive),
        "LEVERET_REPORTS": str(tmp_path / "reports"),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    }
    run(python, "-m", "airflow", "db", "migrate", cwd=tmp_path, **environ)
    run(python, "-m", "airflow", "dags", "test", "leveret_history", cwd=tmp_path, **environ)
    assert sum(row["event"] == "published" for row in rows_of(archive)) >= published >= 10
    assert not list(handed.glob("seg-*.log"))
    assert list((tmp_path / "reports").glob("*/index.html"))
