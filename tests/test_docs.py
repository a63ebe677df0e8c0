"""Tables in the documentation say what the source says: each follows a comment that names it."""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest

import leveret
from deploy.prometheus.make_rules import SERVER_RULES, title
from leveret.cli.pipeline import JOBS
from leveret.config import MIB, Options, ServerOptions, StoreOptions
from leveret.core import errors
from leveret.core.arguments import ARGUMENTS, QueueArgument
from leveret.ingest.row_groups import COLUMNS
from leveret.observability.alert_rules import RULES, STREAM_RULES
from leveret.protocols.metrics.broker import CLUSTER
from leveret.protocols.metrics.handler import WHOLE
from leveret.protocols.metrics.objects import GROUPS
from leveret.runtime.declare import DAY_S, OPTIONS, Option, milliseconds
from leveret.runtime.stats import BrokerStats, JournalStats, QueueStats
from leveret.server.addresses import EXIT_CODES
from leveret.server.settings import shown
from leveret.spark.options import NAMES
from leveret.spark.records import QUEUE, STREAM
from leveret.spark.scan import TABLES
from leveret.spark.target import OF_ALL_ROWS
from tests.jepsen.mistakes import MISTAKES
from tests.sources import ROOT, files

KIB = 1024
NO_EFFECT = "no effect"
COLUMNS_FOR_SPARK = {**TABLES, "stream": STREAM, "queue": QUEUE}


def table(page: str, name: str) -> list[list[str]]:
    """The rows of a named table, without its head; the ends of cells are trimmed."""
    text = (ROOT / "docs" / page).read_text()
    found = re.search(rf"<!-- table: {name} -->\n\|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text)
    assert found, f"docs/{page} has no table after the comment <!-- table: {name} -->"
    return [[cell.strip() for cell in row.strip("|").split(" |")] for row in found[1].splitlines()]


def code(value: object) -> str:
    """A name or value as pages write it."""
    return f"`{value}`"


def seconds(value: int) -> str:
    """A time for people."""
    return f"{value // DAY_S} days" if value % DAY_S == 0 else f"{value} s"


def size(value: int) -> str:
    """A number of bytes for people."""
    return f"{value // MIB} MiB" if value % MIB == 0 else f"{value // KIB} KiB"


def queue_default(option: Option) -> str:
    """The default of a queue option as the page writes it."""
    if option.default is None:
        return ""
    return seconds(option.default) if option.convert is milliseconds else code(option.default)


def open_default(field: Any) -> str:
    """The default of an option of open as the page writes it."""
    if "_bytes" in field.name:
        return size(field.default)
    return code(repr(field.default))


def server_default(field: Any) -> str:
    """The default of an option of a server as the page writes it: as people give it, unless its help tells it."""
    told = "default: " in field.metadata["help"] or not shown(field)
    return "" if told else code(shown(field))


def option_rows(options: Iterable[Any], default: Callable[[Any], str]) -> list[list[str]]:
    """The rows of a table of options."""
    return [[code(row.name), default(row), row.metadata["help"]] for row in options]


def by_policy(argument: QueueArgument) -> str:
    """What a policy may do about an argument."""
    return "min" if argument.minimum else "yes" if argument.by_policy else "no"


def exceptions() -> dict[str, type[BaseException]]:
    """Every exception that a user can meet, by name, in the order of the source."""
    named = {**vars(errors), **{name: getattr(leveret, name) for name in leveret.__all__}}
    return {name: value for name, value in named.items() if inspect.isclass(value) and issubclass(value, Exception)}


def test_the_mistakes_of_clusters_are_those_that_are_made() -> None:
    told = [cell.partition(":")[0] for cell, *_ in table("cluster-faults.md", "mistakes")]
    assert sorted(told) == sorted(map(code, MISTAKES))


def test_the_options_of_a_queue_are_documented() -> None:
    expected = [[code(name), queue_default(row), code(row.argument)] for name, row in OPTIONS.items()]
    assert [row[:3] for row in table("queues.md", "queue options")] == expected


def test_the_arguments_of_a_queue_are_documented() -> None:
    rows = table("queues.md", "arguments")
    expected = [
        [code(row.name), by_policy(row), "yes" if row.by_operator else "no", row.field is None and not row.changeable]
        for row in ARGUMENTS.values()
    ]
    assert [[*row[:3], row[3] == NO_EFFECT] for row in rows] == expected


def test_the_options_of_open_are_documented_as_in_their_help() -> None:
    assert table("options.md", "options") == option_rows(dataclasses.fields(Options), open_default)


def test_the_options_of_a_server_are_documented_as_in_their_help() -> None:
    shared = dataclasses.fields(StoreOptions)
    own = dataclasses.fields(ServerOptions)[len(shared) :]
    assert table("options.md", "server options") == option_rows(own, server_default)


def test_every_metric_is_documented_as_in_its_help() -> None:
    told = [[code(each.family.name), each.family.kind, each.family.help] for each in WHOLE]
    assert table("metrics.md", "metrics") == told
    told = [[code(each.family.name), each.family.kind, each.family.help] for each in CLUSTER]
    assert table("metrics.md", "cluster metrics") == told
    columns = [(name, column.family) for name, group in GROUPS.items() for column in group.columns]
    told = [[code(name), code(family.name), family.kind, family.help] for name, family in columns]
    assert table("metrics.md", "object metrics") == told


def test_every_rule_for_prometheus_is_documented() -> None:
    told = [[code(title(each.name)), each.severity, each.says] for each in (*RULES, *STREAM_RULES, *SERVER_RULES)]
    assert table("metrics.md", "rules") == told


def test_every_exit_code_of_a_server_is_documented() -> None:
    assert [int(row[0]) for row in table("server.md", "exit codes")] == sorted({0, *EXIT_CODES.values()})


EVENTS = {
    "server.md": ("observability", "protocols", "server"),
    "cluster.md": ("cluster", "runtime/shared"),
}


@pytest.mark.parametrize("page", EVENTS)
def test_every_event_in_the_log_is_documented(page: str) -> None:
    sources = [path.read_text() for part in EVENTS[page] for path in files(".py", under=f"src/leveret/{part}")]
    called = re.compile(r'(?:LOG\.\w+|_log\.\w+|\blog(?:\.limited)?)\(\s*"([^"]+)"')
    logged = {event for text in sources for event in called.findall(text)}
    assert {event for row in table(page, "events") for event in row[0].split(", ")} == {code(event) for event in logged}


@pytest.mark.parametrize("name", COLUMNS_FOR_SPARK)
def test_the_columns_for_spark_are_documented(name: str) -> None:
    expected = [[code(column), code(kind.spark)] for column, kind in COLUMNS_FOR_SPARK[name].items()]
    assert table("pipeline.md", name) == expected


def test_every_job_of_the_pipeline_is_documented() -> None:
    assert table("pipeline.md", "jobs") == [[code(job.name), job.help] for job in JOBS]


def test_the_columns_of_the_sink_are_documented() -> None:
    assert [row[0] for row in table("pipeline.md", "sink columns")] == [code(column) for column in COLUMNS]


def test_the_options_of_the_sink_are_documented() -> None:
    names = [name for row in table("pipeline.md", "sink options") for name in re.findall(r"`(\w+)`", row[0])]
    spark = {"checkpointLocation", "queryName"}
    assert {name.lower() for name in names} == {name.lower() for name in {*NAMES["sink"]} - spark}
    assert {each.replace("_", "") for each in OF_ALL_ROWS} <= {name.lower() for name in NAMES["sink"]}


def test_the_options_of_sources_are_documented() -> None:
    rows = table("pipeline.md", "source options")
    for kind in ("stream", "queue"):
        names = {name for row in rows if row[1] in (kind, "both") for name in re.findall(r"`(\w+)`", row[0])}
        assert names == {*NAMES[kind]} - {"encryption_key_file", "encryption_key_env"}


def test_the_rules_of_alerts_are_documented() -> None:
    expected = [[code(rule.name), code(rule.figure), f"{rule.limit:,} {rule.unit}", rule.severity] for rule in RULES]
    assert table("pipeline.md", "alert rules") == expected


@pytest.mark.parametrize("figures", [QueueStats, BrokerStats, JournalStats])
def test_every_figure_is_documented(figures: Any) -> None:
    expected = [code(row.name) for row in dataclasses.fields(figures)]
    assert [row[0] for row in table("operating.md", figures.__name__)] == expected


def test_every_error_is_documented_with_what_it_is() -> None:
    expected = [
        [code(name), ", ".join(code(base.__name__) for base in error.__bases__)] for name, error in exceptions().items()
    ]
    rows = table("errors.md", "errors")
    assert [row[:2] for row in rows] == expected
    assert [row[0] for row in rows if not row[2]] == [], "say when these are raised"


@pytest.mark.parametrize("name", leveret.__all__)
def test_everything_public_explains_itself(name: str) -> None:
    public = getattr(leveret, name)
    undocumented = [
        method
        for method, value in vars(public).items()
        if not method.startswith("_") and (callable(value) or isinstance(value, property)) and not inspect.getdoc(value)
    ]
    assert inspect.getdoc(public)
    assert not undocumented, f"write a docstring for these of leveret.{name}: {undocumented}"
