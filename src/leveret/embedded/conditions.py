"""Which messages browse, redrive and cancel mean: the conditions of users as a filter of the core."""

from datetime import datetime
from typing import Any

from leveret.core.errors import InvalidArgument
from leveret.core.filters import Filter
from leveret.core.ids import parse_id

TIMES = {"since": "since_ms", "until": "until_ms"}


def filter_of(tag: int, conditions: dict[str, Any]) -> Filter:
    """A filter; times are datetimes with a zone or seconds since 1970, ids those of this broker or of publishers."""
    translated = {TIMES.get(name, name): value for name, value in conditions.items()}
    for name, inner in TIMES.items():
        if conditions.get(name) is not None:
            translated[inner] = _ms(name, conditions[name])
    if conditions.get("message_ids") is not None:
        ids = conditions["message_ids"]
        translated["message_ids"] = [each if isinstance(each, int) else parse_id(tag, each) or each for each in ids]
    return Filter.from_dict(translated)


def _ms(name: str, when: Any) -> int:
    """A time in milliseconds."""
    if isinstance(when, datetime):
        if when.tzinfo is None:
            raise InvalidArgument(f"{name} has no time zone: use datetime.now(timezone.utc) or the like")
        when = when.timestamp()
    if isinstance(when, bool) or not isinstance(when, int | float):
        raise InvalidArgument(f"{name} is a datetime or seconds since 1970, not {when!r}")
    return round(when * 1000)
