"""`leveret pipeline ...`: the jobs that run on Spark. This is the table of their arguments; what they do is found when
one of them is run, so that the other commands need neither Spark nor Java.
"""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from importlib import import_module
from typing import Any, NamedTuple

from leveret.cli.output import as_json, as_list, as_table
from leveret.cli.parser import JSON, YES, Command, CommandArgument, argument
from leveret.cli.target import RemoteServer
from leveret.client.broker import connect
from leveret.core.errors import InvalidArgument, NotFound
from leveret.server.control import Remote, connected

EXTRA = {"pyspark", "pyarrow", "pyiceberg", "py4j", "grpc", "pandas"}
"""Modules that the extra `pipeline`, or Spark's own extras, bring."""


PATH = argument("--path", required=True, metavar="PLACE", help="data directory of a broker, or an archive")
URL = argument("--url", help="address of the broker, for example http://127.0.0.1:15672")
TOKEN = argument(
    "--token", default=os.environ.get("LEVERET_TOKEN"), help="token of the REST API; default: $LEVERET_TOKEN"
)
HANDED = argument("--archive", metavar="DIR", help="where the broker hands old segments to (its archive_dir)")
BESIDE = argument(
    "--archive", metavar="PLACE", help="what belongs to --path: an archive of tables, or the broker's archive_dir"
)
KEYS = (
    argument("--encryption-key-file", metavar="FILE", help="keys of encrypted segments"),
    argument("--encryption-key-env", metavar="NAME", help="variable with the keys of encrypted segments"),
)
SOURCE = (
    BESIDE,
    argument("--queue", metavar="NAMES", help="only these queues; by commas"),
    argument("--since", metavar="TIME", help="only what happened at or after this time, such as 2026-01-31T12:00"),
    argument("--until", metavar="TIME", help="only what happened before this time"),
    *KEYS,
)
OPTIONAL_PATH = argument("--path", metavar="PLACE", help="observe the workload in this data directory or archive")
EITHER = (
    argument("--path", metavar="PLACE", help="data directory of a broker, or an archive"),
    argument("--store", metavar="URL", help="instead: PostgreSQL of a broker or cluster, archived to --archive first"),
    argument("--url", help="server that is asked for streams and their lag, or nodes that seal --store before"),
    TOKEN,
)
EDITS = (
    argument(
        "--where", metavar="SQL", help="only messages of which this is true, such as \"headers['kind'] = 'order'\""
    ),
    argument("--set", action="append", default=[], metavar="COLUMN=SQL", help="change a column; can be repeated"),
    argument("--to-queue", metavar="NAME", help="publish to this queue; default: where each message came from"),
    argument("--to-exchange", metavar="NAME", help="publish to this exchange, with the routing keys of the messages"),
    argument("--rate", type=float, metavar="N", help="messages per second; default: as fast as it goes"),
    argument("--limit", type=int, metavar="N", help="so many messages, the oldest ones"),
    argument("--batch-rows", type=int, metavar="N", help="messages that are published at once"),
    argument("--dry-run", action="store_true", help="publish nothing: count, and show some"),
    argument("--checkpoint", metavar="DIR", help="where it is noted what is done: the same command goes on there"),
)


class PipelineJob(NamedTuple):
    """A word after `leveret pipeline`."""

    name: str
    help: str
    arguments: tuple[CommandArgument, ...]


JOBS: tuple[PipelineJob, ...] = (
    PipelineJob(
        "archive",
        "turn sealed segments into tables of Iceberg, by day and queue",
        (
            argument("--path", metavar="DIR", help="data directory of the broker"),
            argument("--store", metavar="URL", help="instead: PostgreSQL of the broker, or of a cluster"),
            HANDED,
            *KEYS,
            argument("--stream", action="append", default=[], metavar="NAME", help="a stream, too; can be repeated"),
            argument("--url", help="broker that streams are read from, and that seals --store; default: --path"),
            TOKEN,
            argument("--out", required=True, metavar="PLACE", help="directory or s3://, gs://, abfs:// of the archive"),
            argument("--retention-days", type=int, default=14, metavar="N", help="days that are kept; default: 14"),
            argument("--keep", action="store_true", help="keep every day"),
            argument("--remove-segments", action="store_true", help="remove archived segments from --archive"),
            argument("--no-compact", action="store_true", help="leave small files as they are"),
            argument("--convert", action="store_true", help="turn an archive of an earlier version into tables first"),
            argument("--no-seal", action="store_true", help="leave out what the server has written last"),
        ),
    ),
    PipelineJob(
        "lifecycle",
        "write one row for each message in each queue: when it came, was delivered and left, and how",
        (*EITHER, *SOURCE, argument("--out", required=True, metavar="DIR", help="directory for the Parquet files")),
    ),
    PipelineJob(
        "check",
        "compare what the broker counted with the history, by queue and hour",
        (*EITHER, *SOURCE),
    ),
    PipelineJob(
        "report",
        "report on queues: tables, a page with plots, and a summary",
        (
            *EITHER,
            *SOURCE,
            argument("--out", required=True, metavar="DIR", help="directory for the report"),
            argument(
                "--period", choices=("second", "minute", "hour", "day"), help="default: by the length of the time"
            ),
            argument(
                "--within-ms", type=int, default=60_000, metavar="N", help="objective: acknowledged in; default: 60000"
            ),
            argument("--share", type=float, default=0.99, metavar="N", help="objective: of so many; default: 0.99"),
            argument(
                "--tenant-header", default="x-group-id", metavar="NAME", help="whose messages are; default: x-group-id"
            ),
            argument("--events-only", action="store_true", help="do not read messages: nothing about tenants"),
            argument("--compare-since", metavar="TIME", help="put an earlier time beside this one: from here ..."),
            argument("--compare-until", metavar="TIME", help="... to here"),
        ),
    ),
    PipelineJob(
        "replay",
        "publish messages of the archive or journal again",
        (PATH, *SOURCE, *EDITS, URL, TOKEN),
    ),
    PipelineJob(
        "rehearse",
        "replay a past period to other consumers in a virtual host of its own, and compare what became of it",
        (
            PATH,
            *SOURCE,
            argument("--vhost", default="/", metavar="NAME", help="virtual host of the period; default: /"),
            argument("--url", required=True, help="broker to rehearse on, for example http://127.0.0.1:15672"),
            TOKEN,
            argument("--data", metavar="DIR", help="data directory of that broker; default: --path"),
            argument(
                "--consumer", metavar="COMMAND", help="consumers to run: they find AMQP_URL, LEVERET_URL, LEVERET_VHOST"
            ),
            argument("--amqp-url", metavar="URL", help="where consumers reach the broker; default: its first listener"),
            argument("--into", metavar="NAME", help="new virtual host to rehearse in; default: a name of its own"),
            argument(
                "--speed", type=float, default=1.0, metavar="N", help="times the original pace; 0: at once; default: 1"
            ),
            argument(
                "--patience",
                type=float,
                default=60.0,
                metavar="S",
                help="end when nothing happens for so long; default: 60",
            ),
            argument("--out", required=True, metavar="DIR", help="directory for the tables and the consumer's output"),
            argument("--keep", action="store_true", help="keep the virtual host"),
            YES,
        ),
    ),
    PipelineJob(
        "redrive",
        "move messages that wait in a queue, mostly dead letters, back to where they came from",
        (
            argument("--url", required=True, help="address of the broker, for example http://127.0.0.1:15672"),
            argument("--queue", required=True, metavar="NAME", help="the queue that they wait in"),
            *EDITS,
            TOKEN,
        ),
    ),
    PipelineJob(
        "plan",
        "say what a workload needs: storage, memory, bandwidth, brokers",
        (
            OPTIONAL_PATH,
            *SOURCE,
            argument("--messages-per-s", type=float, metavar="N", help="publishes, on average"),
            argument("--body-bytes", type=float, metavar="N", help="size of a message; default: 1024"),
            argument("--peak-factor", type=float, metavar="N", help="the peak, as a multiple of that; default: 3"),
            argument("--queues", type=int, metavar="N", help="how many queues; default: 1"),
            argument("--processing-s", type=float, metavar="N", help="seconds that a consumer takes; default: 1"),
            argument("--backlog", type=float, metavar="N", help="messages that wait at the worst of times; default: 0"),
            argument("--retention-days", type=float, metavar="N", help="days that messages are kept; default: 14"),
            argument("--deliveries", type=float, metavar="N", help="deliveries for each publish; default: 1"),
            argument("--protocol", choices=("amqp", "rest", "sqs"), help="what clients speak; default: amqp"),
            argument("--growth-per-month", type=float, metavar="PERCENT", help="forecast this growth, compound"),
            argument("--cores", type=float, metavar="N", help="say when the growth reaches the cores of all brokers"),
            argument(
                "--disk-bytes", type=float, metavar="N", help="say when it reaches the disk for one copy of the log"
            ),
            argument("--memory-bytes", type=float, metavar="N", help="say when it reaches the memory of all brokers"),
            argument(
                "--cost", action="append", default=[], metavar="NAME=N", help="a cost of your own; --json lists them"
            ),
        ),
    ),
    PipelineJob(
        "generate",
        "make a workload that looks real, as an archive of events, or publish it",
        (
            argument("--messages", type=int, required=True, metavar="N", help="how many messages"),
            argument("--queues", type=int, metavar="N", help="how many queues; default: 50"),
            argument("--days", type=float, metavar="N", help="over how many days; default: 1"),
            argument("--seed", type=int, metavar="N", help="another number makes other messages; default: 1"),
            argument("--failures", type=float, metavar="SHARE", help="deliveries that fail; default: 0.03"),
            argument("--body-bytes", type=int, metavar="N", help="typical size of a message; default: 1000"),
            argument("--out", metavar="PLACE", help="new directory for the archive"),
            argument("--publish", metavar="URL", help="broker to publish the messages to"),
            TOKEN,
        ),
    ),
)

SESSION = (
    argument("--master", help="master of Spark, such as spark://host:7077; default: local[*], or that of spark-submit"),
    argument("--remote", metavar="URL", help="Spark Connect server, such as sc://host:15002, instead of a master"),
    argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="setting of Spark; can be repeated"),
    argument("--log", default=os.devnull, metavar="FILE", help="where the log of Spark goes; default: nowhere"),
    JSON,
)


def configure(parser: ArgumentParser) -> None:
    """A parser for each job."""
    words = parser.add_subparsers(title="jobs", metavar="JOB", required=True)
    for job in JOBS:
        one = words.add_parser(job.name, help=job.help, description=job.help)
        one.set_defaults(job=job)
        for row in (*job.arguments, *SESSION):
            row(one)


def run(given: Namespace) -> int:
    """Run a job and print what came of it."""
    locate(given)
    if EITHER[0] in given.job.arguments:
        check_either(given)
    seals = given.job.name == "check" or getattr(given, "store", None) is not None
    if not given.no_seal if given.job.name == "archive" else seals:
        seal(given)
    given.running = given.job.name == "report" and runs(given)
    with extra():
        context = import_module("leveret.spark.commands.context")
        job = import_module(f"leveret.spark.commands.{given.job.name}")
        outcome = context.attempt(job.run, context.Context(given, os.environ, sys.stderr))
    print(as_json(everything(outcome)) if given.json else as_text(outcome))
    return int(outcome.failed)


def locate(given: Namespace) -> None:
    """Turn each directory that is given into its absolute path, once for all that follows; archives have URIs, too."""
    directories = import_module("leveret.spark.directories")
    resolve = {"DIR": directories.directory, "PLACE": directories.archive_place}
    for row in given.job.arguments:
        flag = row.names[0]
        name = flag.removeprefix("--").replace("-", "_")
        found = resolve.get(row.options.get("metavar", ""))
        if found is not None and (place := getattr(given, name)) is not None:
            setattr(given, name, found(flag, place))


def check_either(given: Namespace) -> None:
    """Refuse what names no history, or two."""
    if (given.path is None) == (given.store is None):
        raise InvalidArgument("give --path, or --store with an --archive that is brought up to date")
    if given.store is not None and given.archive is None:
        raise InvalidArgument("--store is read through an archive: name its directory by --archive")


def seal(given: Namespace) -> None:
    """Let the server of a data directory, or of a store, close its segment, so that it is archived, too."""
    if given.store is not None and given.url is not None:
        with connect(given.url, token=given.token) as broker:
            RemoteServer(broker).call("journal.seal")
    if (found := running(given)) is not None:
        with closing(found) as server:
            server.call("journal.seal")


def runs(given: Namespace) -> bool:
    """Whether a server runs on the data directory."""
    with closing(server) if (server := running(given)) is not None else nullcontext():
        return server is not None


def running(given: Namespace) -> Remote | None:
    """The server that runs on the data directory, if one does, and this user may speak to it."""
    if given.path is None or given.remote is not None:
        return None
    try:
        connection = connected(given.path)
    except PermissionError:
        return None  # without the right to write, there is what there is
    return None if connection is None else Remote(connection)


@contextmanager
def extra() -> Iterator[None]:
    """Say in a sentence that something is not installed which jobs need."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").split(".")[0]
        if name not in EXTRA:
            raise
        raise NotFound(f"{name} is not installed: `pip install 'leveret[pipeline]'` brings it") from None


def everything(outcome: Any) -> dict[str, Any]:
    """An outcome for programs."""
    return {**outcome.facts, **{each.title: list(each.rows) for each in outcome.listings}}


def as_text(outcome: Any) -> str:
    """An outcome for people."""
    parts = [as_list(outcome.facts)] if outcome.facts else []
    for each in outcome.listings:
        title = f"{each.title}:\n" if each.title else ""
        parts.append(title + as_table(each.rows, each.columns))
    return "\n\n".join([*parts, *([outcome.text] if outcome.text else [])])


COMMAND = Command((configure,), run)
