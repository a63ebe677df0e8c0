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
