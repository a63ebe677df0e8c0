"""The command line: one row for each command, the module that adds its arguments and executes it."""

import argparse
import sys
from collections.abc import Sequence

from leveret.cli import serve
from leveret.core.errors import LeveretError
from leveret.server.exits import exit_code

COMMANDS = {"serve": serve}


def main(given: Sequence[str] | None = None) -> int:
    """Execute a command; gives the exit code."""
    parser = argparse.ArgumentParser(prog="leveret", description="Leveret, a message broker.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, help=module.HELP, description=module.HELP)
        module.add_arguments(command)
        command.set_defaults(execute=module.execute)
    arguments = parser.parse_args(given)
    try:
        code: int = arguments.execute(arguments)
    except LeveretError as error:
        print(f"leveret: {error}", file=sys.stderr)
        return exit_code(error)
    return code
