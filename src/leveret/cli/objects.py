"""`leveret users ...`, `leveret vhosts ...` and so on: what an operator manages."""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import Any

from leveret.cli import passwords, target
from leveret.cli.actions import ACTIONS, EXAMPLES, NOUNS, Action
from leveret.cli.command import Command
from leveret.cli.output import as_json, print_table
from leveret.cli.progress import ProgressLine
from leveret.core.errors import InvalidArgument, PreconditionFailed
from leveret.server.control_client import Operator

PASSWORD = "password_hash"
ASK_S = 0.2  # between two questions after work that goes on


def actions_of(noun: str) -> dict[str, Action]:
    """The actions on one kind of object, by their words."""
    return {row.verb.partition(".")[2]: row for row in ACTIONS if row.verb.startswith(f"{noun}.")}


def configured(noun: str) -> Callable[[ArgumentParser], None]:
    """What tells a parser about the actions on one kind of object."""

    def configure(parser: ArgumentParser) -> None:
        words = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
        for word, action in actions_of(noun).items():
            one = words.add_parser(word, help=action.help, description=action.help)
            one.set_defaults(action=action)
            for row in action.arguments:
                one.add_argument(*row.names, **row.options)
            if action.asks_password:
                passwords.add_flags(one)
            target.add_flags(one)
            one.add_argument("--json", action="store_true", help="print JSON")

    return configure


def run(given: Namespace) -> int:
    """Do one action and print what came of it."""
    action: Action = given.action
    request = request_of(action, given)
    with target.operator(given) as operator:
        result = operator.call(action.verb, **request)
        if action.followed_by:
            result = follow(operator, action.followed_by, result)
    if given.json:
        print(as_json(result))
    elif action.columns:
        placed = ("node",) if any("node" in row for row in result) else ()  # of a cluster
        print_table(result, (*action.columns, *placed))
    else:
        print(action.done.format(**{**request, **(result if isinstance(result, dict) else {})}))
    return 0


def follow(operator: Operator, verb: str, result: dict[str, Any]) -> dict[str, Any]:
    """Wait until work that was begun has ended; draw how far it is."""
    with ProgressLine("objects", result["total"] or None) as progress:
        while result["state"] == "running":
            time.sleep(ASK_S)
            result = operator.call(verb)
            progress.total = result["total"] or None
            progress.add(result["total"] - result["left"] - progress.done)
    if result["state"] == "failed":
        raise PreconditionFailed(result["summary"])
    return result


def request_of(action: Action, given: Namespace) -> dict[str, Any]:
    """What is sent: the arguments that were given, and the password as it is stored."""
    request: dict[str, Any] = {}
    for row in action.arguments:
        name = str(row.options.get("dest", row.names[0].lstrip("-").replace("-", "_")))
        value = getattr(given, name)
        outer, dot, inner = name.partition(".")
        if dot:
            request.setdefault(outer, {}).update({} if value is None else {inner: value})
        elif value is not None:
            request[name] = value
    if request.get("limits") == {}:
        raise InvalidArgument("no limit is named: see --help for those that there are")
    if action.asks_password:
        request[PASSWORD] = passwords.hashed(given)
    return request


COMMANDS = tuple(Command(noun, help, configured(noun), run, EXAMPLES[noun]) for noun, help in NOUNS.items())
