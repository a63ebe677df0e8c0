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
SERVER_LIBRARIES = {"obstore", "orjson", "re2", "uvloop"}
# Where each command is, in the order of the help text. Only the one that is asked for is imported: that is most of the
# time of a short command.
COMMANDS = {
    "serve": ("serve", "run a server"),
    "config": ("config", "show, check and write configuration files"),
    "top": ("top.command", "watch a server as it works"),
    "queues": ("queues", "list and manage queues"),
    "exchanges": ("listings", "list and manage exchanges"),
    "bindings": ("listings", "list bindings"),
    "connections": ("listings", "list and close connections"),
    "channels": ("listings", "list channels"),
    "consumers": ("listings", "list consumers"),
    "publish": ("publish", "send messages"),
    "consume": ("consume", "take messages"),
    "peek": ("peek", "look at messages without taking them"),
    "tail": ("tail", "follow messages as they are published, without taking them"),
    "redrive": ("redrive", "move messages to another queue, or dead letters to where they died"),
    "schedule": ("schedule", "list and cancel messages that are due later"),
    "users": (OBJECTS, "manage users"),
    "keys": (OBJECTS, "manage access keys of users"),
    "tokens": (OBJECTS, "manage tokens of the REST API"),
    "vhosts": (OBJECTS, "manage virtual hosts"),
    "permissions": (OBJECTS, "manage what users may do in virtual hosts"),
    "topic-permissions": (OBJECTS, "manage which routing keys users may use"),
    "policies": (OBJECTS, "manage settings of queues and exchanges by name"),
    "streams": (OBJECTS, "manage streams"),
    "groups": (OBJECTS, "manage consumer groups of streams"),
    "reservations": (OBJECTS, "show and release messages of queues that Spark has reserved"),
    "alerts": (OBJECTS, "show and silence alerts, manage rules and who is told"),
    "journal": (OBJECTS, "manage the journal"),
    "status": (OBJECTS, "show how much is in the broker"),
    "definitions": ("definitions", "import and export everything that is defined"),
    "cluster": ("cluster", "look at a cluster, let a node go, move shards"),
    "audit": ("audit", "list and check the audit log"),
    "pipeline": ("pipeline", "run jobs on the history of messages, with Spark"),
    "bench": ("bench.command", "measure any server that speaks AMQP 0-9-1 or SQS"),
    "doctor": ("doctor.command", "explain a data directory, without a server, or the cluster of a node"),
    "completion": ("completion", "print a script that completes commands in a shell"),
}


def command(name: str) -> Command:
    """A command, imported now."""
    module = import_module(f"leveret.cli.{COMMANDS[name][0]}")
    found: Command = module.COMMANDS[name] if hasattr(module, "COMMANDS") else module.COMMAND
    return found


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


def parser(words: Sequence[str]) -> ArgumentParser:
    """The parser of a command line: it knows the names of all commands, and everything about the first of the words."""
    whole = Parser(prog="leveret", description="Leveret, a message broker.", epilog=AFTER_COMMANDS)
    whole.add_argument("--version", action=PrintVersion, help="print the version and end")
    names = whole.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, (_, help) in COMMANDS.items():
        one = names.add_parser(name, help=help, description=help)
        if words and words[0] == name:
            found = command(name)
            one.epilog = epilog(found)
            for each in found.arguments:
                each(one)
            one.set_defaults(run=found.run)
    return whole


def epilog(command: Command) -> str:
    """The end of the help text of a command."""
    lines = "\n".join(f"  {line}" for line in command.examples)
    return f"examples:\n{lines}" if lines else ""


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says; give the exit code."""
    words = sys.argv[1:] if argv is None else argv
    try:
        given = parser(words).parse_args(words)
        code: int = given.run(given)
        sys.stdout.flush()
        return code
    except ModuleNotFoundError as error:
        if error.name not in SERVER_LIBRARIES:
            raise
        print("leveret: this command needs libraries: pip install 'leveret[server]'", file=sys.stderr)
        return FAILED
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
