"""Tables for SQL: what a query reads and inserts into by name, in spark.sql, in views and through Spark Connect.

    create temporary view orders using leveret options (url 'http://...', queue 'orders')     needs no Python at all
    attach(spark, url=..., queues=["orders"], path="archive")         leveret.orders, leveret.events, leveret.messages

Spark keeps the options of a view, but hands a Python source none of those that `create table` or a catalog was given.
So each attached table has a source of its own, whose class has the options. What comes before the name of a table is
one database: catalogs of Spark are written in Java.
"""

import re
from collections.abc import Iterable
from typing import ClassVar

from pyspark.sql import SparkSession

from leveret.core.errors import InvalidArgument
from leveret.spark.archive_state import is_archive
from leveret.spark.directories import archive_place
from leveret.spark.options import NAMES, check_names
from leveret.spark.scan import ARCHIVED_TABLES, TABLES
from leveret.spark.source import LeveretSource

_OTHER = re.compile(r"\W", re.ASCII)


class AttachedSource(LeveretSource):
    """A source that has its options with it; those of a query, `WITH (queue = 'orders')`, come on top."""

    attached: ClassVar[dict[str, str]] = {}
    format: ClassVar[str] = "leveret"

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__({**self.attached, **options})
        if "columns" in self.options:
            raise InvalidArgument("a table has all of its columns: select some, or use a view with the option columns")

    @classmethod
    def name(cls) -> str:
        return cls.format


def attach(
    spark: SparkSession,
    database: str = "leveret",
    *,
    queues: Iterable[str] = (),
    streams: Iterable[str] = (),
    **options: str,
) -> list[str]:
    """Make tables for the rest of the session; give their names.

    `events` and `messages` (of an archive `records`, too) of what `path` and `archive` name; queues and streams of the
    server at `url`, under their names with `_` for what the name of a table may not have. Options are those of the
    source but for `columns`.
    """
    tables: dict[str, dict[str, str]] = {}
    if (path := options.get("path")) is not None:
        kinds = ARCHIVED_TABLES if is_archive(archive_place("path", path)) else TABLES
        tables |= {kind: {"table": kind} for kind in kinds}
    for kind, names in (("queue", queues), ("stream", streams)):
        for name in names:
            table = _OTHER.sub("_", name)
            if table in tables:
                raise InvalidArgument(
                    f"{kind} {name!r}: there is a table {table!r} already; attach it to another database"
                )
            tables[table] = {kind: name}
    if not tables:
        raise InvalidArgument("nothing to attach: give a path, or a url and names of queues or streams")
    check_names({name.lower(): text for name, text in options.items()}, "history", "stream", "queue", "sink")
    spark.sql(f"create database if not exists `{database}`")
    for table, own in tables.items():
        kind = "history" if "table" in own else next(iter(own))
        skipped = ("path", "archive") if kind != "history" else ()
        known = {name.lower() for name in NAMES[kind] if name not in skipped}
        said = {name.lower(): text for name, text in options.items() if name.lower() in known} | own
        format_ = f"{database}_{table}"
        spark.dataSource.register(type("Attached", (AttachedSource,), {"attached": said, "format": format_}))
        spark.sql(f"drop table if exists `{database}`.`{table}`")
        spark.sql(f"create table `{database}`.`{table}` using `{format_}`")
    return [f"{database}.{table}" for table in tables]
