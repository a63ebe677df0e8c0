"""Fields of rules, receivers and silences as a user sent them: checked by name, type and range, or refused."""

from collections.abc import Mapping
from typing import Any

from leveret.core.errors import InvalidArgument
from leveret.core.names import check_name
from leveret.core.patterns import check_glob

Row = Mapping[str, Any]

TEXT_CHARS_MAX = 500
GLOB_CHARS_MAX = 255
ALL = "*"


def check_known(what: str, row: Row, known: tuple[str, ...]) -> None:
    """Refuse fields that mean nothing, which are slips of the pen."""
    unknown = sorted(set(row) - set(known))
    if unknown:
        raise InvalidArgument(f"{what} has no {', '.join(map(repr, unknown))}: its fields are {', '.join(known)}")


def named(what: str, row: Row) -> str:
    """The name of the object."""
    name = text(what, row, "name", needed=True)
    check_name(what, name)
    return name


def text(
    what: str, row: Row, name: str, default: str = "", chars_max: int = TEXT_CHARS_MAX, needed: bool = False
) -> str:
    """A text that is not too long."""
    value = row.get(name, default)
    if not isinstance(value, str) or len(value) > chars_max or not value.isprintable():
        raise InvalidArgument(f"{name} of {what} is one line of at most {chars_max} characters")
    if needed and not value:
        raise InvalidArgument(f"{what} has no {name}: give one")
    return value


def number(what: str, row: Row, name: str, default: float, least: float, most: float) -> float:
    """A number in its range."""
    value = row.get(name, default)
    if type(value) not in (int, float) or not least <= value <= most:
        raise InvalidArgument(f"{name} of {what} is a number from {least:,} to {most:,}, not {value!r}")
    found: float = value
    return found


def whole(what: str, row: Row, name: str, default: int, least: int, most: int) -> int:
    """A whole number in its range."""
    value = number(what, row, name, default, least, most)
    if value != int(value):
        raise InvalidArgument(f"{name} of {what} is a whole number, not {value!r}")
    return int(value)


def choice(what: str, row: Row, name: str, default: str, known: tuple[str, ...]) -> str:
    """One of some words."""
    value = row.get(name, default)
    if value not in known:
        raise InvalidArgument(f"{name} of {what} is {' or '.join(known)}, not {value!r}")
    return str(value)


def flag(what: str, row: Row, name: str, default: bool) -> bool:
    """Yes or no."""
    value = row.get(name, default)
    if not isinstance(value, bool):
        raise InvalidArgument(f"{name} of {what} is true or false, not {value!r}")
    return value


def glob(what: str, row: Row, name: str) -> str:
    """A pattern of names: `*` is any text, `?` any character, `[ab]` one of some."""
    return _checked_glob(text(what, row, name, ALL, GLOB_CHARS_MAX, needed=True))


def globs(what: str, row: Row, name: str, default: tuple[str, ...], count_max: int) -> tuple[str, ...]:
    """Several of them."""
    return tuple(map(_checked_glob, texts(what, row, name, default, count_max)))


def _checked_glob(found: str) -> str:
    check_glob(found)
    return found


def texts(what: str, row: Row, name: str, default: tuple[str, ...], count_max: int) -> tuple[str, ...]:
    """Several texts."""
    value = row.get(name, list(default))
    if not isinstance(value, list) or not value or len(value) > count_max:
        raise InvalidArgument(f"{name} of {what} is a list of 1 to {count_max} texts")
    return tuple(text(what, {name: each}, name, needed=True) for each in value)
