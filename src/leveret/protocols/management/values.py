"""Properties of messages as RabbitMQ's JSON has them."""

from typing import Any

from leveret.core.jsonable import plain
from leveret.core.properties import Properties

PROPERTIES = tuple(Properties.__dataclass_fields__)


def properties(found: Properties) -> dict[str, Any]:
    """The properties that a message has."""
    given = ((name, getattr(found, name)) for name in PROPERTIES)
    return {name: plain(value) for name, value in given if value is not None}
