"""Values of options as people write them: `64MiB`, `10s`, `off`, `yes`."""

import re
from collections.abc import Callable
from dataclasses import Field
from typing import Any, Literal, cast, get_args, get_origin

from leveret.core.errors import InvalidArgument

VALUE_CHARACTERS_MAX = 4_096  # a path or a URL fits

BYTES = {"": 1, "B": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40, "KB": 10**3, "MB": 10**6, "GB": 10**9}
MILLISECONDS = {"MS": 1, "S": 1_000, "M": 60_000, "H": 3_600_000}
SWITCHES = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
OFF = ("off", "none", "")

AMOUNT = re.compile(r"(\d+(?:\.\d+)?) *([A-Za-z%]*)")


def amount(text: str, units: dict[str, int], example: str) -> float:
    """A number with a unit, in the smallest unit."""
    match = AMOUNT.fullmatch(text.strip())
    factor = units.get(match[2].upper()) if match else None
    if match is None or factor is None:
        raise InvalidArgument(f"it is written like {example}")
    return float(match[1]) * factor


def whole(text: str) -> int:
    """A number; people may group its digits."""
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument("it is a whole number") from None


def size(text: str) -> int:
    """A number of bytes."""
    return int(amount(text, BYTES, "64MiB or 65536"))


def milliseconds(text: str) -> int:
    """A time in milliseconds."""
    return int(amount(text, {"": 1} | MILLISECONDS, "200ms, 2s or 200"))


def seconds(text: str) -> float:
    """A time in seconds."""
    wanted = amount(text, {"": 1_000} | MILLISECONDS, "10s, 500ms or 10") / 1_000
    return int(wanted) if wanted.is_integer() else wanted


def memory(text: str) -> float:
    """A share of the memory, or a number of bytes."""
    return amount(text, BYTES, "0.6 or 4GiB")


def share(text: str) -> float:
    """A part of a whole."""
    return amount(text, {"": 1}, "0.01")


def switch(text: str) -> bool:
    """Yes or no."""
    if text.lower() not in SWITCHES:
        raise InvalidArgument("it is true or false")
    return SWITCHES[text.lower()]


# What the end of a name says about its value; the first one that fits.
BY_NAME: dict[str, Callable[[str], Any]] = {
    "_bytes": size,
    "_bytes_max": size,
    "_ms": milliseconds,
    "_s": seconds,
    "_limit": memory,
    "_ratio": share,
    "_max": whole,
    "_port": whole,
}


def choices(option: "Field[Any]") -> tuple[str, ...]:
    """The words that an option may be; none when it may be any."""
    return get_args(option.type) if get_origin(option.type) is Literal else ()


def is_switch(option: "Field[Any]") -> bool:
    """Whether the option is yes or no."""
    return option.type is bool


def shown(option: "Field[Any]") -> str:
    """The default of an option as people write it."""
    value = cast("Any", option.default)
    if value is None or value is False:
        return "off"
    if value is True:
        return "on"
    sized = [unit for unit in ("GiB", "MiB", "KiB") if "_bytes" in option.name and value % BYTES[unit.upper()] == 0]
    return f"{value // BYTES[sized[0].upper()]}{sized[0]}" if sized else str(value)


def parse(option: "Field[Any]", given: object) -> Any:
    """The value of an option, from text or from a configuration file; the error names the option."""
    text = str(given).strip()
    try:
        value = _value(option, text)
        _check_range(option, value)
    except InvalidArgument as error:
        shown = "..." if option.metadata["secret"] else repr(text[:80])
        raise InvalidArgument(f"{option.name} cannot be {shown}: {error}") from None
    return value


def _value(option: "Field[Any]", text: str) -> Any:
    """The value, its range not looked at."""
    words = choices(option)
    if len(text) > VALUE_CHARACTERS_MAX:
        raise InvalidArgument(f"it has at most {VALUE_CHARACTERS_MAX} characters")
    if words and text not in words:
        raise InvalidArgument(f"it is one of {', '.join(words)}")
    if is_switch(option):
        return switch(text)
    if text.lower() in OFF and type(None) in get_args(option.type):
        return None
    by_name = next((read for ending, read in BY_NAME.items() if option.name.endswith(ending)), None)
    if by_name is None and option.type is int:
        return whole(text)
    return by_name(text) if by_name else text


def _check_range(option: "Field[Any]", value: object) -> None:
    """Refuse a number that is too small or too large."""
    at_least, at_most = option.metadata["at_least"], option.metadata["at_most"]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if value < at_least or (at_most is not None and value > at_most):
        raise InvalidArgument(f"it is at least {at_least}" + (f" and at most {at_most}" if at_most is not None else ""))
