"""What commands print: tables for people, JSON for programs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

GAP = "  "


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
