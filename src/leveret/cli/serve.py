"""`leveret serve`: run a server until it is told to stop."""

import os
import sys
from argparse import SUPPRESS, ArgumentParser, BooleanOptionalAction, Namespace
from typing import Any

from leveret.cli.command import Command
from leveret.core.errors import LeveretError
from leveret.server.exits import exit_code
from leveret.server.settings import OPTIONS, flag, server_options
from leveret.server.values import choices, is_switch


def configure(parser: ArgumentParser) -> None:
    """A flag for every option."""
    parser.add_argument("--config", metavar="FILE", help="TOML file with options")
    for name, option in OPTIONS.items():
        if option.metadata["secret"]:
            continue
        shown = "off" if option.default is None else option.default
        keywords: dict[str, Any] = {"help": f"{option.metadata['help']} (default: {shown})".replace("%", "%%")}
        if is_switch(option):
            keywords["action"] = BooleanOptionalAction
        else:
            keywords["metavar"] = "|".join(choices(option)) or name.rsplit("_", 1)[-1].upper()
        parser.add_argument(flag(name), dest=name, default=SUPPRESS, **keywords)


def run(given: Namespace) -> int:
    """Serve; gives the exit code."""
    # Not above: the other commands need neither an event loop nor the protocol.
    from leveret.server.clustered import serve_node
    from leveret.server.process import serve

    flags = {name: value for name, value in vars(given).items() if name in OPTIONS}
    try:
        options = server_options(flags, os.environ, given.config)
        return serve(options) if options.cluster is None else serve_node(options)
    except LeveretError as error:
        print(f"leveret: {error}", file=sys.stderr)
        return exit_code(error)


COMMAND = Command("serve", "run a server", configure, run)
