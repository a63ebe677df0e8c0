"""Which messages of a queue are meant: the question that browse, redrive and cancel ask of each."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from leveret.core.errors import InvalidArgument
from leveret.core.message import Message
from leveret.core.properties import Properties

# A filter is applied to every message of a queue: these bound what one question costs each of them.
HEADERS_MAX = 32
CONTAINS_BYTES_MAX = 4_096
MESSAGE_IDS_MAX = 2_000

GROUP_HEADER = "x-group-id"
ORIGIN = "x-origin-id"  # as in publish.pyx: the id that a dead letter had at first
BLOB = 2  # as in message.pxd: the body is elsewhere
NUMBERS = ("since_ms", "until_ms", "priority_min", "priority_max")
TEXTS = ("group", "routing_key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Conditions that a message must meet, all of them; None: no such condition.

    headers maps names to values, None: the header is there, whatever its value. message_ids may mix numbers (`seq`),
    the `message_id` of publishers, and the ids that dead letters had at first. Times are half-open:
    since_ms <= enqueued_ms < until_ms. A body that is kept in the blob store is not searched and does not match
    `contains`.
    """

    headers: Mapping[str, Any] | None = None
    contains: bytes | str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    priority_min: int | None = None
    priority_max: int | None = None
    group: str | None = None
    message_ids: Collection[int | str] | None = None
    routing_key: str | None = None
    needle: bytes | None = field(init=False, repr=False, compare=False, default=None)
    ids: frozenset[int | str] | None = field(init=False, repr=False, compare=False, default=None)
    decodes: bool = field(init=False, repr=False, compare=False, default=False)

    @classmethod
    def from_dict(cls, conditions: Mapping[str, Any]) -> Self:
        known = {condition.name for condition in fields(cls) if condition.init}
        unknown = sorted(map(str, conditions.keys() - known))
        if unknown:
            raise InvalidArgument(f"unknown condition {unknown[0]!r}: a filter has {', '.join(sorted(known))}")
        return cls(**conditions)

    def __post_init__(self) -> None:
        for name in NUMBERS:
            _check(name, getattr(self, name), int, "a whole number")
        for name in TEXTS:
            _check(name, getattr(self, name), str, "a string")
        _check_headers(self.headers)
        ids = _message_ids(self.message_ids)
        object.__setattr__(self, "needle", _needle(self.contains))
        object.__setattr__(self, "ids", ids)
        named = ids is not None and any(isinstance(name, str) for name in ids)
        object.__setattr__(self, "decodes", bool(self.headers) or self.group is not None or named)

    def accepts(self, message: Message) -> bool:
        """Whether a message meets every condition; its properties are decoded only if nothing cheaper decides."""
        return (
            (self.since_ms is None or message.enqueued_ms >= self.since_ms)
            and (self.until_ms is None or message.enqueued_ms < self.until_ms)
            and (self.priority_min is None or message.priority >= self.priority_min)
            and (self.priority_max is None or message.priority <= self.priority_max)
            and (self.group is None or message.group != 0)
            and (self.ids is None or message.seq in self.ids or self.decodes)
            and (self.routing_key is None or message.routing_key == self.routing_key)
            and (self.needle is None or _contains(message, self.needle))
            and (not self.decodes or self._accepts_properties(message.seq, message.properties))
        )

    def _accepts_properties(self, seq: int, properties: Properties) -> bool:
        """Whether the conditions hold that need decoded properties."""
        headers = properties.headers or {}
        return (
            (self.group is None or headers.get(GROUP_HEADER) == self.group)
            and (self.ids is None or not self.ids.isdisjoint((seq, properties.message_id, headers.get(ORIGIN))))
            and all(_matches(headers, name, value) for name, value in (self.headers or {}).items())
        )


def _contains(message: Message, needle: bytes) -> bool:
    """Whether the body has these bytes; the whole content is searched in place, without a copy of the body."""
    return not message.flags & BLOB and message.content.find(needle, message.header_len) >= 0


def _matches(headers: Mapping[str, Any], name: str, wanted: Any) -> bool:
    """Whether a header is there and has the value wanted; True is not 1."""
    if name not in headers:
        return False
    value = headers[name]
    return wanted is None or (value == wanted and isinstance(value, bool) == isinstance(wanted, bool))


def _check(name: str, value: Any, kind: type, meaning: str) -> None:
    """Refuse a condition of the wrong type; True and False are no numbers."""
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise InvalidArgument(f"the condition {name} is {meaning}, not {value!r}")


def _check_headers(headers: Any) -> None:
    """Refuse conditions on headers that are no mapping or too many."""
    _check("headers", headers, Mapping, "an object of names and values")
    if headers is not None and len(headers) > HEADERS_MAX:
        raise InvalidArgument(f"a filter has at most {HEADERS_MAX} headers, not {len(headers)}: ask twice")


def _needle(contains: Any) -> bytes | None:
    """The bytes to search for; text is searched for as UTF-8."""
    if contains is None:
        return None
    if not isinstance(contains, str | bytes):
        raise InvalidArgument(f"the condition contains is a string or bytes, not {contains!r}")
    needle = contains.encode("utf-8", "surrogatepass") if isinstance(contains, str) else contains
    if len(needle) > CONTAINS_BYTES_MAX:
        raise InvalidArgument(f"contains has at most {CONTAINS_BYTES_MAX} bytes, not {len(needle)}: shorten it")
    return needle


def _message_ids(ids: Any) -> frozenset[int | str] | None:
    """The set of ids; an empty one accepts nothing, so that cancelling nothing does not cancel all."""
    if ids is None:
        return None
    if not isinstance(ids, list | tuple | set | frozenset) or not all(isinstance(name, int | str) for name in ids):
        raise InvalidArgument("the condition message_ids is an array of numbers and strings")
    if len(ids) > MESSAGE_IDS_MAX:
        raise InvalidArgument(f"a filter has at most {MESSAGE_IDS_MAX} message ids, not {len(ids)}: ask twice")
    return frozenset(ids)
