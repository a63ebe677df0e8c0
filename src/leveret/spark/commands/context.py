"""What every command gets and gives: a session when it asks for one, the line of progress, and what is printed."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from leveret.clock import SystemClock
from leveret.core import errors
from leveret.core.errors import InvalidArgument, LeveretError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from leveret.spark.beginning import Beginning
    from leveret.spark.progress import Status

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""A variable that spark-submit sets: the session has a master then."""


class PrintedRows(NamedTuple):
    """Rows to print, under a title."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Mapping[str, Any]]


@dataclass
class Outcome:
    """What came of a command: facts, lists, and words."""

    facts: dict[str, Any] = field(default_factory=dict)
    listings: tuple[PrintedRows, ...] = ()
    text: str = ""
    failed: bool = False
    """Whether the command tells of something that must not be."""


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
        from leveret.spark.progress import Status
        from leveret.spark.session import session

        self.check()
        master = self.given.master or (None if SUBMITTED in self.environ else "local[*]")
        status = Status(self.stderr)
        status.tell("starting Spark")
        spark = session(master, self.given.log, remote=self.given.remote, **settings(self.given.conf))
        try:
            with status.watch(spark):
                yield spark, status
        finally:
            spark.stop()

    def check(self) -> None:
        """Refuse what cannot be read before Spark is started, which takes a while."""
        # A remote session reads directories of another machine.
        if self.given.remote is None and hasattr(self.given, "since") and self.given.path is not None:
            from leveret.spark.source import LeveretSource

            LeveretSource(self.options()).scan()

    def catch_up(self, spark: SparkSession, status: Status) -> None:
        """Bring the archive of a store in PostgreSQL up to date, which is read in its place; no day is dropped."""
        if self.given.store is None:
            return
        from leveret.spark.archive import Archive, archive

        keys = (self.given.encryption_key_file, self.given.encryption_key_env)
        job = Archive(self.given.archive, store=self.given.store, retention_days=None, keys=keys)
        archive(spark, job, SystemClock().now_ms(), status.tell)

    def options(self) -> dict[str, str]:
        """What the flags --path, --archive, --queue, --since and --until choose, as options of the format."""
        names = ("path", "archive", "queue", "since", "until", "encryption_key_file", "encryption_key_env")
        found = {name: str(value) for name in names if (value := getattr(self.given, name)) is not None}
        if "path" not in found:
            found["path"] = found.pop("archive")  # that of a store
        return found

    @property
    def beginning(self) -> Beginning:
        """Where the history that these flags choose begins."""
        from leveret.spark.beginning import Beginning

        return Beginning.of(value for name, value in self.options().items() if name in ("path", "archive"))

    def table(self, spark: SparkSession, table: str) -> DataFrame:
        """The table that these flags choose."""
        from leveret.spark.tables import read_table

        return read_table(spark, table, **self.options())


def attempt(job: Callable[[Context], Outcome], context: Context) -> Outcome:
    """Do a job; failures of Spark become errors of ours."""
    try:
        return job(context)
    except Exception as error:
        # Not by its class: `leveret pipeline plan` needs no Spark. What fails on the way to a join is an error of Java.
        if not type(error).__module__.startswith(("pyspark.", "py4j.")):
            raise
        raise refusal(str(error)) from error


def settings(pairs: Sequence[str]) -> dict[str, str]:
    """Settings of Spark, from NAME=VALUE."""
    wrong = [pair for pair in pairs if "=" not in pair]
    if wrong:
        raise InvalidArgument(f"--conf {wrong[0]!r}: write NAME=VALUE, such as spark.driver.memory=4g")
    return dict(pair.split("=", 1) for pair in pairs)


_OURS = re.compile(r"^\s*leveret\.core\.errors\.(\w+): (.+)$", re.MULTILINE)
_PYTHON = re.compile(r"^\s*[\w.]*(?:Error|Exception): (.+)$", re.MULTILINE)


def refusal(text: str) -> LeveretError:
    """The error that caused a failure: ours, as it was raised in a task, or one with the line that tells most."""
    if ours := _OURS.findall(text):
        name, says = ours[-1]
        kind = getattr(errors, name, None)
        return kind(says) if isinstance(kind, type) and issubclass(kind, LeveretError) else LeveretError(says)
    told = _PYTHON.findall(text) or text.strip().splitlines() or ["nothing was told"]
    return LeveretError(f"Spark failed: {told[-1] if _PYTHON.search(text) else told[0]}; --log FILE keeps all of it")
