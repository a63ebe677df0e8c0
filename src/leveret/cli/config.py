"""`leveret config`: the options of a server as a file and the environment give them, or a file to begin with."""

import os
import re
import textwrap
from argparse import Namespace
from dataclasses import Field
from typing import Any

from leveret.cli.output import as_json, print_table
from leveret.cli.parser import JSON, Command, Word, argument, run_word, worded
from leveret.server.settings import CONFIG, OPTIONS, from_environment, from_file, server_options, shown, variable
from leveret.storage.options import shown as without_password

DEFAULT, HIDDEN = "default", "(secret)"
URL_PASSWORD = re.compile(r"(://[^/@:]*):[^/@]*@")
SAMPLE_COLUMNS = 100


def effective(given: Namespace) -> list[dict[str, Any]]:
    """Every option with its value and where that comes from; what contradicts itself is refused."""
    path = given.config or os.environ.get(CONFIG)
    in_file, in_environment = from_file(path) if path else {}, from_environment(os.environ)
    options = server_options({}, os.environ, given.config)
    rows = []
    for name, option in OPTIONS.items():
        told = variable(name) if name in in_environment else path if name in in_file else DEFAULT
        secret = option.metadata["secret"] and told != DEFAULT
        value = HIDDEN if secret else URL_PASSWORD.sub(r"\1@", without_password(shown(option, getattr(options, name))))
        rows.append({"option": name, "value": value, "from": told})
    return rows


def print_all(given: Namespace) -> int:
    """Print the options that were given, or all of them."""
    rows = [row for row in effective(given) if given.all or row["from"] != DEFAULT]
    if given.json:
        print(as_json(rows))
    elif rows:
        print_table(rows, ("option", "value", "from"))
    else:
        print("no option is given: all have their defaults, which --all shows")
    return 0


def check(given: Namespace) -> int:
    """Say that a file is right; what is wrong is an error."""
    given.config = given.file
    count = sum(row["from"] != DEFAULT for row in effective(given))
    print(f"{given.file} is right: options given by it or by the environment: {count}")
    return 0


def sample(given: Namespace) -> int:
    """Print a file with every option, its meaning and its default, all of them comments."""
    print("# Options of `leveret serve`. Remove the # before those that you change.")
    for name, option in OPTIONS.items():
        if not option.metadata["secret"]:
            meaning = textwrap.fill(
                option.metadata["help"], SAMPLE_COLUMNS, initial_indent="# ", subsequent_indent="# "
            )
            print(f"\n{meaning}\n# {name} = {as_toml(option)}")
    return 0


def as_toml(option: "Field[Any]") -> str:
    """The default of an option as the file has it."""
    value: Any = option.default
    is_plain = isinstance(value, bool | int | float) and not shown(option).endswith("iB")
    return str(value).lower() if is_plain else f'"{shown(option)}"'


FILE = argument("--config", metavar="FILE", help=f"the file; default: ${CONFIG}")
COMMAND = Command(
    worded(
        (
            Word(
                "print",
                "print the options that are given, and where",
                (FILE, argument("--all", action="store_true", help="defaults, too"), JSON),
                print_all,
            ),
            Word("check", "check a file", (argument("file", metavar="FILE", help="the file"),), check),
            Word("sample", "print a file with every option as a comment", (), sample),
        )
    ),
    run_word,
    ("leveret config sample > leveret.toml", "leveret config check leveret.toml", "leveret config print --all"),
)
