"""Operations as commands: `leveret users add ...`, with the arguments and the help that the registry has."""

import json
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, get_args, get_origin

from leveret.cli import passwords, target
from leveret.cli.actions import ACTIONS, EXAMPLES, Action
from leveret.cli.output import ProgressLine, as_json, as_list, print_table
from leveret.cli.parser import GIVEN, Command, Word, run_word, worded
from leveret.core.errors import InvalidArgument, PreconditionFailed
from leveret.operations.operation import MISSING, OperationParameter
from leveret.operations.registry import OPERATIONS
from leveret.server.control import Operator

PASSWORD, LIMITS = "password_hash", "limits"
SWITCH = "enabled"
SOURCE_CHARS_MAX = 1 << 20
ASK_S = 0.2  # between two questions after work that goes on

Show = Callable[[Namespace, Any], int]
"""Prints what came of an operation; gives the exit code."""


def names(text: str) -> list[str]:
    """Several names in one word."""
    return [each.strip() for each in text.split(",") if each.strip()]


def json_object(text: str) -> dict[str, Any]:
    """A JSON object in one word; - is the standard input, since every process can read command lines."""
    try:
        value = json.loads(sys.stdin.read(SOURCE_CHARS_MAX) if text == "-" else text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ArgumentTypeError("it is a JSON object, for example '{\"max-length\": 1000}'")
    return value


def number(text: str) -> int | float:
    """A number, whole if it is written so."""
    return int(text) if text.isdigit() else float(text)


def read_as(parameter: OperationParameter, is_flag: bool) -> dict[str, Any]:
    """How argparse reads an argument of its type."""
    kind = parameter.kind
    if kind is bool:
        return {"action": "store_true"}
    if kind is int:
        return {"type": number if float in get_args(parameter.hint) else int, **({"metavar": "N"} if is_flag else {})}
    if get_origin(kind) is Literal:
        return {"choices": get_args(kind), **({} if is_flag else {"metavar": parameter.name})}
    if get_origin(kind) is list:
        return {"type": names} if is_flag else {"nargs": "*"}
    return {"type": json_object, "metavar": "JSON"} if get_origin(kind) is Mapping else {}


def add_argument(parser: ArgumentParser, parameter: OperationParameter, action: Action) -> None:
    """The word or flags of an argument: what has a default is a flag."""
    name, place, help = parameter.name, GIVEN + parameter.name, parameter.help or None
    options: dict[str, Any] = {}
    if name == PASSWORD:
        passwords.add_flags(parser)
    elif name == LIMITS:
        for limit, what in action.limits.items():
            help = f"how many {what}; -1 is no limit"
            parser.add_argument(f"--{limit}", dest=f"{place}.{limit}", type=int, metavar="N", help=help)
    elif name == SWITCH:
        for flag, word, value in (("--on", "in force", True), ("--off", "not in force", False)):
            parser.add_argument(flag, dest=place, action="store_const", const=value, help=f"it is {word}")
    elif parameter.by_name or parameter.default is not MISSING:
        is_needed = parameter.default is MISSING
        options = {"required": is_needed, "default": None if is_needed else parameter.default, "metavar": name.upper()}
        options |= {**read_as(parameter, True), **action.options.get(name, {})}
        if "action" in options or "choices" in options:
            del options["metavar"]
        parser.add_argument(f"--{name.replace('_', '-')}", dest=place, help=help, **options)
    else:
        options = {"metavar": name.upper(), **read_as(parameter, False), **action.options.get(name, {})}
        parser.add_argument(place, help=help, **options)


def add_result_flags(parser: ArgumentParser) -> None:
    """The flags that all have: which server, and how to print what it says."""
    target.add_flags(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def configure(verb: str, parser: ArgumentParser) -> None:
    """The arguments of an operation."""
    for parameter in OPERATIONS[verb].parameters.values():
        add_argument(parser, parameter, ACTIONS.get(verb, Action()))
    add_result_flags(parser)


def asked(given: Namespace, verb: str) -> Any:
    """What came of an operation."""
    request = request_of(verb, given)
    with target.operator(given) as operator:
        result = operator.call(verb, **request)
        followed_by = ACTIONS[verb].followed_by if verb in ACTIONS else ""
        return follow(operator, followed_by, result) if followed_by else result


def run(verb: str, show: Show, given: Namespace) -> int:
    """Do an operation and print what came of it."""
    result = asked(given, verb)
    if given.json:
        print(as_json(result))
    return show(given, result)


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


def request_of(verb: str, given: Namespace) -> dict[str, Any]:
    """What is sent: the arguments that were given, and the password as it is stored."""
    request: dict[str, Any] = {}
    for name in OPERATIONS[verb].parameters:
        if name == PASSWORD:
            request[name] = passwords.hashed(given)
        elif name == LIMITS:
            limits = {limit: getattr(given, f"{GIVEN}{name}.{limit}") for limit in ACTIONS[verb].limits}
            request[name] = {limit: value for limit, value in limits.items() if value is not None}
        elif getattr(given, GIVEN + name) is not None:
            request[name] = getattr(given, GIVEN + name)
    if request.get(LIMITS) == {}:
        raise InvalidArgument("no limit is named: see --help for those that there are")
    return request


def word(verb: str, show: Show) -> Word:
    """An operation as a word after a command."""
    destroys = ACTIONS[verb].destroys if verb in ACTIONS else ""
    arguments = (partial(configure, verb),)
    return Word(verb.partition(".")[2], OPERATIONS[verb].help, arguments, partial(run, verb, show), destroys)


def rows(columns: tuple[str, ...]) -> Show:
    """Prints a table; in a cluster, with the node that has each row."""

    def show(given: Namespace, result: Any) -> int:
        if not given.json:
            print_table(result, (*columns, *(("node",) if any("node" in row for row in result) else ())))
        return 0

    return show


def sentence(said: str) -> Show:
    """Prints what was done."""

    def show(given: Namespace, result: Any) -> int:
        if not given.json:
            request = {name.removeprefix(GIVEN): value for name, value in vars(given).items() if name.startswith(GIVEN)}
            print(said.format(**{**request, **(result if isinstance(result, dict) else {})}))
        return 0

    return show


def command(noun: str) -> Command:
    """The actions on one kind of object."""
    words = tuple(
        word(verb, rows(row.columns) if row.columns else sentence(row.done))
        for verb, row in ACTIONS.items()
        if verb.startswith(f"{noun}.")
    )
    return Command(worded(words), run_word, EXAMPLES[noun])


def show_status(given: Namespace, facts: Any) -> int:
    """Print what the server, or its data directory, says about itself."""
    if not given.json:
        print(as_list(facts))
    return 0


STATUS = Command(
    (partial(configure, "status"),),
    partial(run, "status", show_status),
    ("leveret status --json",),
)
COMMANDS = {**{noun: command(noun) for noun in EXAMPLES}, "status": STATUS}
