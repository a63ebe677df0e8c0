"""`leveret serve`: run a server until it is told to stop."""

import argparse
import os
from typing import Any

from leveret.server.process import run
from leveret.server.settings import OPTIONS, flag, server_options
from leveret.server.values import choices, is_switch

HELP = "run a server"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A flag for every option."""
    parser.add_argument("--config", metavar="FILE", help="TOML file with options")
    for name, option in OPTIONS.items():
        if option.metadata["secret"]:
            continue
        shown = "off" if option.default is None else option.default
        keywords: dict[str, Any] = {"help": f"{option.metadata['help']} (default: {shown})".replace("%", "%%")}
        if is_switch(option):
            keywords["action"] = argparse.BooleanOptionalAction
        else:
            keywords["metavar"] = "|".join(choices(option)) or name.rsplit("_", 1)[-1].upper()
        parser.add_argument(flag(name), dest=name, default=argparse.SUPPRESS, **keywords)


def execute(arguments: argparse.Namespace) -> int:
    """Serve; gives the exit code."""
    given = {name: value for name, value in vars(arguments).items() if name in OPTIONS}
    return run(server_options(given, os.environ, arguments.config))
