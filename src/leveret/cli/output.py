"""What commands print: tables for people, JSON for programs."""

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

GAP = "  "
CUT = "…"
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"


def as_json(value: object) -> str:
    """The result of a verb as JSON."""
    return json.dumps(value, indent=2)


def as_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Rows under a line of names, aligned; a column `limits.x` is x of the limits."""
    lines = [[column.rpartition(".")[2] for column in columns]]
    lines += [[cell(_value(row, column)) for column in columns] for row in rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    return "\n".join(
        GAP.join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def as_list(facts: Mapping[str, Any]) -> str:
    """One fact in each line."""
    return as_table([{"": name, "value": value} for name, value in facts.items()], ["", "value"]).split("\n", 1)[1]


def print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print rows; a terminal gets no longer lines than it has room for."""
    text = as_table(rows, columns)
    print(for_terminal(text, shutil.get_terminal_size().columns) if sys.stdout.isatty() else text, flush=True)


def for_terminal(table: str, columns: int) -> str:
    """A table as a terminal of so many columns shows it."""
    first, *rest = (line if len(line) <= columns else line[: columns - 1] + CUT for line in table.split("\n"))
    return "\n".join([f"{BOLD}{first}{PLAIN}" if is_coloured(sys.stdout) else first, *rest])


def is_coloured(stream: TextIO) -> bool:
    """Whether letters may be bold there."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def cell(value: object) -> str:
    """A value on one line. Names come from clients: nothing in them may move the cursor of a terminal."""
    if value is None or value is False:
        return ""
    if value is True:
        return "yes"
    if isinstance(value, list):
        return ",".join(cell(each) for each in value)
    text = json.dumps(value) if isinstance(value, dict) else str(value)
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _value(row: Mapping[str, Any], column: str) -> object:
    """A cell by the name of its column."""
    outer, dot, inner = column.partition(".")
    return row[outer].get(inner) if dot else row[outer]
