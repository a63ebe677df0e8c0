"""What a command of the command line is made of: main.py has the table of them."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import NamedTuple


class Command(NamedTuple):
    """A word after `leveret`; `run` gives the exit code, and what it raises is printed as one sentence."""

    name: str
    help: str
    configure: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]
    examples: tuple[str, ...] = ()
    """Command lines for the end of the help text."""


class Word(NamedTuple):
    """A word after a command that has several: `leveret queues list`."""

    name: str
    help: str
    configure: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]


def worded(words: tuple[Word, ...]) -> Callable[[ArgumentParser], None]:
    """What tells a parser about the words of a command."""

    def configure(parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
        for word in words:
            one = actions.add_parser(word.name, help=word.help, description=word.help)
            word.configure(one)
            one.set_defaults(act=word.run)

    return configure


def run_word(given: Namespace) -> int:
    """Do what the word says."""
    code: int = given.act(given)
    return code
