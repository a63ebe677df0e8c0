"""Options of a source as Spark gives them: texts under lower-case names."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from leveret.core.errors import InvalidArgument

Options = Mapping[str, str]
WHOLE_MAX = (1 << 63) - 1


def required(options: Options, name: str) -> str:
    """An option that has to be given."""
    value = options.get(name.lower())
    if not value:
        raise InvalidArgument(f"the option {name} is missing: see the table of options in the documentation")
    return value


def whole(options: Options, name: str, default: int | None = None, least: int = 1) -> int | None:
    """A whole number, or the default."""
    text = options.get(name.lower())
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= WHOLE_MAX):
        raise InvalidArgument(f"{name}={text!r}: give a whole number, at least {least}")
    return int(text)


def flag(options: Options, name: str, default: bool) -> bool:
    """True or false."""
    value = options.get(name.lower(), str(default)).lower()
    if value not in ("true", "false"):
        raise InvalidArgument(f"{name}={value!r}: give true or false")
    return value == "true"


def seconds(options: Options, name: str, default: float) -> float:
    """A time span: a number of seconds, or of another unit as in 500ms, 10s, 5m, 2h."""
    text = options.get(name.lower())
    if text is None:
        return default
    for unit, length_s in {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}.items():
        number = text.strip().removesuffix(unit).strip() if unit else text.strip()
        if text.strip().endswith(unit) and number.isascii() and number.isdigit() and len(number) < 10:
            return int(number) * length_s
    raise InvalidArgument(f"{name}={text!r}: give a time span such as 500ms, 10s or 5m")


def moment_ms(name: str, text: str) -> int:
    """A time in ms since 1970."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(f"{name}={text!r}: give a time such as 2026-01-31T12:00:00") from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)


def partition_offsets(name: str, text: str) -> dict[int, int]:
    """Offsets as JSON: a number for each partition."""
    try:
        found: Any = json.loads(text)
        return {int(partition): _offset(offset) for partition, offset in found.items()}
    except (ValueError, AttributeError):
        raise InvalidArgument(
            f'{name}={text!r}: give earliest, latest, a time such as 2026-01-31T12:00:00, or {{"0": 42, ...}}'
        ) from None


def _offset(value: Any) -> int:
    """An offset in JSON."""
    if type(value) is not int or not 0 <= value <= WHOLE_MAX:
        raise ValueError(value)
    return value
