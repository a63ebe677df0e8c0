"""A Spark session with the settings that the pipeline wants: local, quiet, in UTC."""

import logging
import os
import re
import shutil
import sys

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from leveret.core.errors import NotFound

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # What every reader of Parquet takes for a time in UTC.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Percentiles of more than 128 groups would otherwise be made by sorting every row.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "10000",
    # Tables are to be done soon; the length of a single pause does not matter.
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
}

SMALL = {
    "spark.sql.shuffle.partitions": "1",
    # Java that starts quickly is worth more than Java that computes quickly.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # Few rows are read sooner than code for them is compiled, or a plan is made again half-way.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""Settings for tables of thousands of rows, not of millions."""


LOCAL = re.compile(r"local(?:\[(\d+|\*)[],])?")
TASKS_PER_CORE = 4
"""Spark cuts tables into hardly more tasks than cores: with three of them on two, one core waits at the end."""


def _shares(master: str | None) -> dict[str, str]:
    """Into how many tasks a table is cut at least, on this machine."""
    local = LOCAL.match(master or "")
    if local is None:
        return {}
    cores = os.cpu_count() or 1 if local[1] == "*" else int(local[1] or 1)
    return {"spark.sql.adaptive.coalescePartitions.minPartitionNum": str(TASKS_PER_CORE * cores)}


def has_java() -> bool:
    """Whether there is a Java for Spark to run on."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=os.path.join(home, "bin") if home else None) is not None


def session(
    master: str | None = "local[*]", log: str = os.devnull, *, remote: str | None = None, **settings: str
) -> SparkSession:
    """The session, made if need be; what Java and its workers print goes to a file.

    `remote` is the address of a Spark Connect server, which has a Java and settings of its own. Without a master it is
    that of spark-submit.
    """
    if remote is not None:
        builder = SparkSession.builder.remote(remote)
        settings = {name: value for name, value in (SETTINGS | settings).items() if name.startswith("spark.sql.")}
    elif has_java():
        builder = SparkSession.builder if master is None else SparkSession.builder.master(master)
        settings = SETTINGS | _shares(master) | settings
    else:
        raise NotFound("Spark needs Java 17 or newer: on Debian, `apt-get install default-jre-headless`")
    # What is wrong with a query is raised: it need not be printed as well.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    # Workers would otherwise run whatever python3 is first on the path, and listen on the outer address.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for name, value in settings.items():
        builder = builder.config(name, value)
    # Java inherits the standard error stream: no other way quiets all of it.
    kept = os.dup(2)
    opened = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(opened, 2)
    os.close(opened)
    try:
        return builder.getOrCreate()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
