"""`leveret definitions import` and `export`: files of definitions as RabbitMQ writes and reads them."""

import json
import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from leveret.cli import target
from leveret.cli.output import ProgressLine, as_json, cell, print_table
from leveret.cli.parser import JSON, Command, Word, argument, run_word, worded
from leveret.cli.passwords import chars_min
from leveret.core.errors import InvalidArgument
from leveret.operations.definitions import SECTIONS
from leveret.security.passwords import hashed_row
from leveret.server.control import Operator

FILE_BYTES_MAX = 256 << 20  # it is read into memory
PART_CHARS_MAX = 256 << 10  # of one request: others get their turn in between
# What RabbitMQ writes about itself, by the beginning of the name.
ABOUT = ("rabbit", "product_", "original_", "explanation", "metadata", "description", "default_queue_type")
STDIO = "-"


def import_file(given: Namespace) -> int:
    """Send a file section by section, and say what became of it."""
    document = read(given.file)
    rows = []
    total = sum(len(each) for each in document.values() if isinstance(each, list))
    with target.operator(given) as operator, ProgressLine("importing", total) as progress:
        for section in SECTIONS:
            objects = document.pop(section, [])
            if section == "users" and isinstance(objects, list):  # passwords go no further
                least = chars_min(given)
                objects = [hashed_row(each, least) if isinstance(each, dict) else each for each in objects]
            rows.append(imported(operator, section, objects, given.vhost, progress))
    ignored = [name for name, value in document.items() if value and not name.startswith(ABOUT)]
    if given.json:
        print(as_json({"sections": rows, "ignored": ignored}))
        return 0
    counted = [{**row, "skipped": len(row["skipped"])} for row in rows]
    print_table(counted, ("section", "imported", "skipped"))
    for each in (each for row in rows for each in row["skipped"]):
        print(f"skipped {cell(each['object'])}: {cell(each['reason'])}", file=sys.stderr)
    for name in ignored:
        print(f"skipped {cell(name)}: there is no such thing in Leveret", file=sys.stderr)
    return 0


def imported(operator: Operator, section: str, objects: Any, vhost: str, progress: ProgressLine) -> dict[str, Any]:
    """Send the objects of a section in parts; what became of them."""
    if not isinstance(objects, list):
        raise InvalidArgument(f"{section} is not a list: is it a file of definitions?")
    total: dict[str, Any] = {"section": section, "imported": 0, "skipped": []}
    for part in parts(objects):
        became = operator.call("definitions.import", section=section, objects=part, vhost=vhost)
        total["imported"] += became["imported"]
        total["skipped"] += became["skipped"]
        progress.add(len(part))
    return total


def parts(objects: list[Any]) -> Iterator[list[Any]]:
    """The objects in portions that fit into a request."""
    part: list[Any] = []
    chars = 0
    for each in objects:
        size = len(json.dumps(each))
        if part and chars + size > PART_CHARS_MAX:
            yield part
            part, chars = [], 0
        part.append(each)
        chars += size
    if part:
        yield part


def read(path: str) -> dict[str, Any]:
    """A file of definitions."""
    with open(path, "rb") as file:
        text = file.read(FILE_BYTES_MAX + 1)
    if len(text) > FILE_BYTES_MAX:
        raise InvalidArgument(f"{path} is over {FILE_BYTES_MAX} bytes: split it")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{path} is not JSON ({error}): export it again") from None
    if not isinstance(document, dict):
        raise InvalidArgument(f"{path} is not an object with sections: is it a file of definitions?")
    return document


def export_file(given: Namespace) -> int:
    """Write everything that is defined."""
    with target.operator(given) as operator, ProgressLine("exporting") as progress:
        document = {section: list(exported(operator, section, progress)) for section in SECTIONS}
    text = as_json(document) + "\n"
    if given.file == STDIO:
        sys.stdout.write(text)
        return 0
    # What checks passwords is in it: it is for its owner only.
    with open(os.open(given.file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    return 0


def exported(operator: Operator, section: str, progress: ProgressLine) -> Iterator[dict[str, Any]]:
    """Every object of a section."""
    offset: int | None = 0
    while offset is not None:
        page = operator.call("definitions.export", section=section, offset=offset)
        yield from page["objects"]
        progress.add(len(page["objects"]))
        offset = page["next"]


IMPORTED = (
    argument("file", metavar="FILE", help="JSON file from RabbitMQ or from `leveret definitions export`"),
    argument("--vhost", default="/", help="where objects go that name no virtual host; default: /"),
    JSON,
    target.add_flags,
)
EXPORTED = (
    argument("file", metavar="FILE", nargs="?", default=STDIO, help="file to write; default: standard output"),
    target.add_flags,
)
WORDS = (
    Word("import", "add what a file defines", IMPORTED, import_file),
    Word("export", "write all definitions", EXPORTED, export_file),
)
COMMAND = Command(
    worded(WORDS),
    run_word,
    ("leveret definitions export backup.json", "leveret definitions import backup.json"),
)
