"""Which messages browse, redrive and cancel mean: the conditions of users as a filter of the core."""

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any

from leveret.core.errors import InvalidArgument
from leveret.core.filters import Filter
from leveret.core.ids import parse_id

MESSAGE_IDS_MAX = 1_000
TIMES = {"since": "since_ms", "until": "until_ms"}


def filter_of(tag: int, conditions: dict[str, Any]) -> Filter:
    """A filter; times are datetimes with a zone or seconds since 1970, ids those of this broker or of publishers."""
    translated = {TIMES.get(name, name): value for name, value in conditions.items()}
    for name, inner in TIMES.items():
        if conditions.get(name) is not None:
            translated[inner] = _ms(name, conditions[name])
    if conditions.get("message_ids") is not None:
        translated["message_ids"] = list(_meant(tag, conditions["message_ids"]))
    return Filter.from_dict(translated)


def _meant(tag: int, ids: Any) -> Iterator[Any]:
    """What each id may mean: the number of a message here, and the id that a dead letter keeps."""
    if not isinstance(ids, Collection) or isinstance(ids, str) or len(ids) > MESSAGE_IDS_MAX:
        raise InvalidArgument(f"the condition message_ids is an array of at most {MESSAGE_IDS_MAX} ids: ask twice")
    for each in ids:
        yield each
        number = parse_id(tag, each) if isinstance(each, str) else 0
        if number:
            yield number


def _ms(name: str, when: Any) -> int:
    """A time in milliseconds."""
    if isinstance(when, datetime):
        if when.tzinfo is None:
            raise InvalidArgument(f"{name} has no time zone: use datetime.now(timezone.utc) or the like")
        when = when.timestamp()
    if isinstance(when, bool) or not isinstance(when, int | float):
        raise InvalidArgument(f"{name} is a datetime or seconds since 1970, not {when!r}")
    return round(when * 1000)
