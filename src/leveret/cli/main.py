"""The command `leveret`: one table of commands.

Exit codes: 0 done, 1 refused or failed (one sentence on the standard error stream says why), 2 wrong usage. Those of
`leveret serve` are in server/exits.py.
"""

import os
import sys
from argparse import SUPPRESS, Action, ArgumentParser
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from leveret.cli.parser import Command, Parser
from leveret.core.errors import LeveretError

OBJECTS = "objects"
# Where each command is, in the order of the help text; objects.py has several, named by what they manage. Only the one
# that is asked for is imported: most of the time of a short command is that of its imports.
MODULES = {
    "serve": "serve",
    "top": "top.command",
    "queues": "queues",
    "publish": "publish",
    "consume": "consume",
    "peek": "peek",
    "tail": "tail",
    "redrive": "redrive",
    "schedule": "schedule",
    OBJECTS: OBJECTS,
    "definitions": "definitions",
    "cluster": "cluster",
    "audit": "audit",
    "pipeline": "pipeline",
    "bench": "bench.command",
    "doctor": "doctor.command",
    "completion": "completion",
}


def commands_in(module: str) -> tuple[Command, ...]:
    """The commands of one module."""
    found = import_module(f"leveret.cli.{module}")
    several: tuple[Command, ...] = found.COMMANDS if module == OBJECTS else (found.COMMAND,)
    return several


def commands() -> tuple[Command, ...]:
    """All commands."""
    return tuple(command for module in MODULES.values() for command in commands_in(module))


def commands_for(words: Sequence[str]) -> tuple[Command, ...]:
    """The command that a line begins with, if it does; else all, for the help text or the complaint."""
    first = words[0] if words else ""
    found = commands_in(MODULES.get(first, OBJECTS)) if first and not first.startswith("-") else ()
    return found if any(command.name == first for command in found) else commands()


DONE, FAILED = 0, 1
INTERRUPTED = 130  # as shells have it for a program that was interrupted from the keyboard


AFTER_COMMANDS = """\
`leveret serve` starts a server; `leveret COMMAND --help` explains a command.
Exit codes: 0 done, 1 refused or failed, 2 wrong usage."""


class PrintVersion(Action):
    """Prints the version; it is looked up only then, for that takes longer than most commands."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, SUPPRESS, nargs=0, default=SUPPRESS, help=help)

    def __call__(self, parser: ArgumentParser, *_: Any) -> None:
        from leveret.version import version

        print(f"leveret {version()}")
        parser.exit()


def parser(known: Sequence[Command] | None = None) -> ArgumentParser:
    """The parser of the command line: of all commands, or of those that were found to be enough."""
    whole = Parser(prog="leveret", description="Leveret, a message broker.", epilog=AFTER_COMMANDS)
    whole.add_argument("--version", action=PrintVersion, help="print the version and end")
    words = whole.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in commands() if known is None else known:
        one = words.add_parser(
            command.name,
            help=command.help,
            description=command.help,
            epilog=epilog(command),
        )
        for each in command.arguments:
            each(one)
        one.set_defaults(run=command.run)
    return whole


def epilog(command: Command) -> str:
    """The end of the help text of a command."""
    lines = "\n".join(f"  {line}" for line in command.examples)
    return f"examples:\n{lines}" if lines else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says; give the exit code."""
    words = sys.argv[1:] if argv is None else argv
    given = parser(commands_for(words)).parse_args(words)
    try:
        code: int = given.run(given)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of our output has closed it. The interpreter must not try to write the rest at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except (LeveretError, OSError) as error:
        print(f"leveret: {_sentence(error)}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _sentence(error: Exception) -> str:
    """What went wrong, in one line."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split())
