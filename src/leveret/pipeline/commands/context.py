"""What every command gets and gives: a session when it asks for one, the line of progress, and what is printed."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from leveret.core.errors import InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from leveret.pipeline.progress import Status

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""A variable that spark-submit sets: the session has a master then."""


class Listing(NamedTuple):
    """Rows to print, under a title."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Mapping[str, Any]]


@dataclass
class Outcome:
    """What came of a command: facts, lists, and words."""

    facts: dict[str, Any] = field(default_factory=dict)
    listings: tuple[Listing, ...] = ()
    text: str = ""


@dataclass(frozen=True)
class Context:
    """What a command is given."""

    given: Namespace
    environ: Mapping[str, str]
    stderr: TextIO

    @contextmanager
    def spark(self) -> Iterator[tuple[SparkSession, Status]]:
        """A session, with a line that shows its progress; both end with the block."""
        # Not above: `leveret pipeline plan` needs no Spark.
        from leveret.pipeline.progress import Status
        from leveret.pipeline.session import session

        master = self.given.master or (None if SUBMITTED in self.environ else "local[*]")
        status = Status(self.stderr)
        status.tell("starting Spark")
        spark = session(master, self.given.log, remote=self.given.remote, **settings(self.given.conf))
        try:
            with status.watch(spark):
                yield spark, status
        finally:
            spark.stop()

    def options(self) -> dict[str, str]:
        """What the flags --path, --archive, --queue, --since and --until choose, as options of the format."""
        names = ("path", "archive", "queue", "since", "until", "encryption_key_file", "encryption_key_env")
        return {name: str(value) for name in names if (value := getattr(self.given, name)) is not None}

    def table(self, spark: SparkSession, table: str) -> DataFrame:
        """The table that these flags choose."""
        from leveret.pipeline.tables import read_table

        return read_table(spark, table, **self.options())


def settings(pairs: Sequence[str]) -> dict[str, str]:
    """Settings of Spark, from NAME=VALUE."""
    wrong = [pair for pair in pairs if "=" not in pair]
    if wrong:
        raise InvalidArgument(f"--conf {wrong[0]!r}: write NAME=VALUE, such as spark.driver.memory=4g")
    return dict(pair.split("=", 1) for pair in pairs)
