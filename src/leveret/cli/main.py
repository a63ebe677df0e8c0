"""The command `leveret`: one table of commands.

Exit codes: 0 done, 1 refused or failed (one sentence on the standard error stream says why), 2 wrong usage. Those of
`leveret serve` are in server/exits.py.
"""

import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence

from leveret.cli import (
    completion,
    consume,
    definitions,
    objects,
    peek,
    pipeline,
    publish,
    queues,
    redrive,
    schedule,
    serve,
    status,
    tail,
)
from leveret.cli.bench import command as bench
from leveret.cli.command import Command
from leveret.cli.doctor import command as doctor
from leveret.cli.top import command as top
from leveret.core.errors import LeveretError

COMMANDS: tuple[Command, ...] = (
    serve.COMMAND,
    top.COMMAND,
    queues.COMMAND,
    publish.COMMAND,
    consume.COMMAND,
    peek.COMMAND,
    tail.COMMAND,
    redrive.COMMAND,
    schedule.COMMAND,
    *objects.COMMANDS,
    definitions.COMMAND,
    status.COMMAND,
    pipeline.COMMAND,
    bench.COMMAND,
    doctor.COMMAND,
    completion.COMMAND,
)

DONE, FAILED = 0, 1
INTERRUPTED = 130  # as shells have it for a program that was interrupted from the keyboard


def parser() -> ArgumentParser:
    """The parser of the whole command line."""
    whole = ArgumentParser(prog="leveret", description="Leveret, a message broker.", allow_abbrev=False)
    commands = whole.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        one = commands.add_parser(
            command.name,
            help=command.help,
            description=command.help,
            allow_abbrev=False,
            formatter_class=RawDescriptionHelpFormatter,
            epilog=epilog(command),
        )
        command.configure(one)
        one.set_defaults(run=command.run)
    return whole


def epilog(command: Command) -> str:
    """The end of the help text of a command."""
    lines = "\n".join(f"  {line}" for line in command.examples)
    return f"examples:\n{lines}" if lines else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says; give the exit code."""
    given = parser().parse_args(argv)
    try:
        code: int = given.run(given)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read our output has seen enough. The interpreter must not try to write the rest at its end.
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
