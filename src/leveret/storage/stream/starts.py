"""Where a reader starts: first, last, next, an offset, a time, or so long ago."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from leveret.core.arguments import INTERVAL, UNITS_MS
from leveret.core.errors import InvalidArgument
from leveret.core.tables import Timestamp

OFFSET_MAX = (1 << 63) - 1


@dataclass(frozen=True)
class Start:
    """One of the six ways; `value` is an offset, a time or a number of milliseconds."""

    kind: Literal["first", "last", "next", "offset", "timestamp", "interval"]
    value: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.value <= OFFSET_MAX:
            raise InvalidArgument(f"an offset, time or interval is 0 to {OFFSET_MAX}, not {self.value}")


def interval_ms(text: str) -> int:
    """The milliseconds of an interval such as 7D, 1h or 30m."""
    match = INTERVAL.fullmatch(text)
    if match is None:
        raise InvalidArgument(f"an interval is a number and one of {', '.join(UNITS_MS)}, for example 7D; not {text!r}")
    return min(int(match[1]) * UNITS_MS[match[2]], OFFSET_MAX)


def start_named(value: object) -> Start:
    """The start that a text, an offset or a time asks for."""
    if isinstance(value, datetime):
        return Start("timestamp", max(0, round(value.timestamp() * 1000)))
    if isinstance(value, Timestamp):
        return Start("timestamp", min(1000 * value, OFFSET_MAX))
    if isinstance(value, int) and not isinstance(value, bool):
        return Start("offset", value)
    if not isinstance(value, str):
        raise InvalidArgument(f"a start is first, last, next, an offset, a time or an interval, not {value!r}")
    if value in ("first", "last", "next"):
        return Start(value)  # type: ignore[arg-type]
    return Start("interval", interval_ms(value))
