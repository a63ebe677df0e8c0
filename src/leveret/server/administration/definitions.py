"""Definitions as RabbitMQ's JSON files have them, a section at a time: taken in, and given out.

Taking in merges: what contradicts something that exists is left out and told, and so is what Leveret does not have.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from leveret.core.errors import InvalidArgument, LeveretError
from leveret.server.administration.context import Verb, VerbContext
from leveret.server.administration.exports import EXPORTS
from leveret.server.administration.imports import IMPORTS

OBJECTS_MAX = 10_000  # in one answer: the server does nothing else meanwhile


def take_in(context: VerbContext, section: str, objects: list[Any], vhost: str = "/") -> dict[str, Any]:
    """Add the objects of a section; `vhost` is for those that do not name theirs."""
    put = IMPORTS.get(section)
    if put is None:
        raise InvalidArgument(f"there is no section {section!r}: those that there are are {', '.join(IMPORTS)}")
    skipped = []
    for each in objects:
        try:
            if not isinstance(each, dict):
                raise InvalidArgument("it is not an object")
            put(context, {"vhost": vhost, **each})
        except LeveretError as error:
            skipped.append({"object": described(section, each), "reason": str(error)})
    return {"imported": len(objects) - len(skipped), "skipped": skipped}


def described(section: str, row: Any) -> str:
    """An object as errors call it: the parts of its name."""
    known = ("user", "component", "source", "destination", "routing_key", "exchange", "name", "vhost")
    parts = [f"{name} {row[name]!r}" for name in known if name in row] if isinstance(row, dict) else []
    return f"{section}: {', '.join(parts) or 'an object without a name'}"


def give_out(context: VerbContext, section: str, offset: int = 0) -> dict[str, Any]:
    """Some objects of a section, from a place on; `next` is where to go on, None at the end."""
    found = EXPORTS.get(section)
    if found is None:
        raise InvalidArgument(f"there is no section {section!r}: those that there are are {', '.join(EXPORTS)}")
    page = list(_page(found(context), offset))
    return {"objects": page, "next": offset + OBJECTS_MAX if len(page) == OBJECTS_MAX else None}


def _page(rows: Iterable[dict[str, Any]], offset: int) -> Iterator[dict[str, Any]]:
    """The rows of one answer."""
    start = max(0, offset)
    return islice(rows, start, start + OBJECTS_MAX)


VERBS: dict[str, Verb] = {"definitions.import": take_in, "definitions.export": give_out}
