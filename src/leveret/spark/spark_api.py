"""Spark's API for sources, from 4.0 on: names that a version lacks have a stand-in, which nothing is an instance of.

4.1     a class for sinks of streaming queries that get batches of Arrow, which 4.0 does not need
4.2     the offset at which a batch begins, and how much it may take: before, a batch takes all that is there
"""

from typing import TYPE_CHECKING

import pyspark

from leveret.core.errors import NotSupported

VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
OFFSETS_GIVEN = (4, 2)

if TYPE_CHECKING or VERSION >= (4, 1):
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

    class DataSourceStreamArrowWriter(DataSourceArrowWriter, DataSourceStreamWriter):
        """Spark 4.0 hands batches of Arrow to all that is a DataSourceArrowWriter."""


if TYPE_CHECKING or VERSION >= OFFSETS_GIVEN:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
else:

    class ReadLimit:
        """Any of those below."""

    class SupportsTriggerAvailableNow:
        """Spark asks once, and takes that for all that is available now."""

    ReadAllAvailable = ReadMaxRows = ReadLimit


def need_spark(version: tuple[int, ...], what: str) -> None:
    """Refuse what the API of this version of Spark does not have."""
    if version > VERSION:
        raise NotSupported(f"{what} needs Spark {'.'.join(map(str, version))} or newer, this is {pyspark.__version__}")


__all__ = [
    "OFFSETS_GIVEN",
    "VERSION",
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
    "need_spark",
]
