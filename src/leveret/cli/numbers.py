"""Numbers from the command line, each within its limits."""

from argparse import ArgumentTypeError
from collections.abc import Callable


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
