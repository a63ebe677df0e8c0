"""Parsers of the command line, and what commands are made of: main.py has the table of them.

What parsers complain of is one sentence, and their help fits a terminal of 80 columns.
"""

import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple, NoReturn

NOT_DONE, WRONG_USAGE = 1, 2
GIVEN = "given."
"""Before the names of arguments of operations in a namespace: some are called as flags that all commands have."""
HELP_COLUMN = 28
"""Where the explanations begin: behind the longest of our names."""
CHOICE = re.compile(r"argument (\S+): invalid choice: '?(.*?)'? \(choose from (.*)\)")
UNKNOWN = "unrecognized arguments: "
MISSING_WORD = re.compile(r"the following arguments are required: (COMMAND|ACTION|JOB)")
WORD = re.compile(r"[\w/-]+")
FLAG = re.compile(r"(?<!\S)--[a-z][a-z-]*")


class Formatter(RawDescriptionHelpFormatter):
    """Help with a wider first column."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, max_help_position=HELP_COLUMN, **options)


class Parser(ArgumentParser):
    """A parser for `leveret`, or for a word after it; flags are not abbreviated, so that new ones break no script."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": Formatter, "allow_abbrev": False, **options})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Complain of what is unknown here, and not in the parser above, which does not know these flags."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(UNKNOWN + " ".join(unknown))
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where to look; without any word, the list of them."""
        if MISSING_WORD.fullmatch(message):
            self.print_help(sys.stderr)
        else:
            print(f"{self.prog}: {self._sentence(message)}", file=sys.stderr)
        raise SystemExit(WRONG_USAGE)

    def _sentence(self, message: str) -> str:
        """A complaint, with what was probably meant, or where to look."""
        chosen = CHOICE.fullmatch(message)
        if chosen:
            name, word, known = chosen.groups()
            what = f"there is no {name.lower()}" if name.isupper() else f"{name} cannot be"
            return f"{what} {word!r}: {self._meant(word, WORD.findall(known))}"
        if message.startswith(UNKNOWN):
            word = message.removeprefix(UNKNOWN).split()[0]
            return f"it has no {word}: {self._meant(word, FLAG.findall(self.format_help()))}"
        return f"{message}: {self._meant('', [])}"

    def _meant(self, word: str, known: list[str]) -> str:
        """What a word was probably meant to be."""
        near = get_close_matches(word, known, n=1)
        return f"did you mean {near[0]}?" if near else f"see `{self.prog} --help`"


Configure = Callable[[ArgumentParser], None]
"""Tells a parser about an argument, or about several that belong together."""


@dataclass(frozen=True, slots=True)
class CommandArgument:
    """A word or flag: what argparse is told about it."""

    names: tuple[str, ...]
    options: dict[str, Any]

    def __call__(self, parser: ArgumentParser) -> None:
        parser.add_argument(*self.names, **self.options)


def argument(*names: str, **options: Any) -> CommandArgument:
    """A row of the arguments of a command."""
    return CommandArgument(names, options)


QUEUE = argument("queue", metavar="QUEUE", help="its name")
JSON = argument("--json", action="store_true", help="print JSON")
JSON_LINES = argument("--json", action="store_true", help="print an object in each line")


class Command(NamedTuple):
    """What a word after `leveret` does; `run` gives the exit code, and what it raises is printed as one sentence."""

    arguments: tuple[Configure, ...]
    run: Callable[[Namespace], int]
    examples: tuple[str, ...] = ()
    """Command lines for the end of the help text."""


class Word(NamedTuple):
    """A word after a command that has several: `leveret queues list`."""

    name: str
    help: str
    arguments: tuple[Configure, ...]
    run: Callable[[Namespace], int]
    destroys: str = ""
    """What is lost by it: on a terminal the user is asked before, unless --yes is given."""


YES = argument("--yes", action="store_true", help="do not ask on a terminal")


def worded(words: tuple[Word, ...]) -> tuple[Configure]:
    """The words of a command as its arguments."""

    def configure(parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
        for word in words:
            one = actions.add_parser(word.name, help=word.help, description=word.help)
            for each in word.arguments:
                each(one)
            if word.destroys:
                YES(one)
            one.set_defaults(act=word.run, destroys=word.destroys)

    return (configure,)


def run_word(given: Namespace) -> int:
    """Do what the word says; on a terminal, ask before something is lost."""
    if given.destroys and not given.yes and sys.stdin.isatty():
        names = {name.removeprefix(GIVEN): value for name, value in vars(given).items()}
        print(f"{given.destroys.format(**names)}? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            print("nothing was changed", file=sys.stderr)
            return NOT_DONE
    code: int = given.act(given)
    return code


def whole(at_least: int, at_most: int) -> Callable[[str], int]:
    """The type of an argument that is a whole number."""

    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not at_least <= int(text) <= at_most:
            raise ArgumentTypeError(f"it is a whole number from {at_least} to {at_most}, not {text!r}")
        return int(text)

    return parse


def positive(at_most: float) -> Callable[[str], float]:
    """The type of an argument that is a number above zero."""

    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = 0.0
        if not 0 < number <= at_most:
            raise ArgumentTypeError(f"it is a number above 0 and up to {at_most:g}, not {text!r}")
        return number

    return parse
