"""One Spark session for all tests of the pipeline, small and quiet."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.utils.concurrent import ExecutorFactory

from leveret.cli import main
from leveret.spark.commands.context import Context
from leveret.spark.progress import Status
from leveret.spark.session import SMALL, session
from tests.parts import need_program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def no_pool_left_behind() -> Iterator[None]:
    """End the threads that pyiceberg reads with, which it would keep for the next time."""
    yield
    if (pool := ExecutorFactory._instance) is not None:
        pool.shutdown()
        ExecutorFactory._instance = None


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    need_program("java")
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    found = session("local[2,3]", **SMALL, **{"spark.driver.memory": "512m", "spark.sql.warehouse.dir": warehouse})
    yield found
    found.stop()


@pytest.fixture
def run(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a job and give what it prints as JSON."""

    @contextmanager
    def session(self: Context) -> Iterator[tuple[SparkSession, Status]]:
        yield spark, Status(io.StringIO())

    def call(job: str, *switches: str, **flags: object) -> Any:
        words = [word for name, value in flags.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        code = main.main(["pipeline", job, *switches, *words, "--json"])
        printed = capsys.readouterr()
        assert code == 0, printed.err
        return json.loads(printed.out)

    monkeypatch.setattr(Context, "spark", session)
    return call
