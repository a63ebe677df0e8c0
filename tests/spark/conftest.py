"""One Spark session for all tests of the pipeline, small and quiet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from pyiceberg.utils.concurrent import ExecutorFactory

from leveret.spark.session import SMALL, session
from tests.parts import need_program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
