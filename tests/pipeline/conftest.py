"""One Spark session for all tests of the pipeline, small and quiet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from leveret.pipeline.session import session
from tests.parts import need_program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "512m",
    # Tests are short: a JVM that starts quickly is worth more than one that computes quickly.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    need_program("java")
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    found = session("local[2,3]", **SETTINGS, **{"spark.sql.warehouse.dir": warehouse})
    yield found
    found.stop()
