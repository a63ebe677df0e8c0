"""Queue arguments and policy keys in one table: name, the QueuePolicy field it sets, how it is read, who may use it.

The policy key is the argument's name without "x-". Names that are not in the table pass without effect, as in RabbitMQ.
RabbitMQ's own are in its order, since the first that is wrong is the one that a refusal names.

How long a message waits before it is delivered again.

none         0
exponential  base x 2^n, at most max        n = deliveries so far
linear       base x n, at most max
list         the n-th of the list; the last one repeats
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from leveret.core.errors import InvalidArgument, PreconditionFailed
from leveret.core.jsonable import canonical
from leveret.core.names import NAME_BYTES_MAX, described
from leveret.core.tables import Long, LongString, Timestamp

_TYPE_NAMES: dict[type, str] = {
    bool: "bool",
    Long: "long",
    Timestamp: "timestamp",
    LongString: "longstr",
    float: "double",
    Decimal: "decimal",
    str: "longstr",
    bytes: "binary",
    datetime: "timestamp",
    type(None): "void",
    dict: "table",
    list: "array",
    tuple: "array",
}


def type_name(value: object) -> str:
    """The AMQP name of a value's type, as RabbitMQ says it."""
    if type(value) is int:
        return "signedint" if -(2**31) <= value < 2**31 else "long"
    return _TYPE_NAMES.get(type(value), type(value).__name__)


def check_property(name: str, where: str, received: bool | str, current: bool | str) -> None:
    """Refuse another value of a property such as durable or type."""
    if received != current:
        raise PreconditionFailed(
            f"inequivalent arg '{name}' for {where}: received '{_text(received)}' but current is '{_text(current)}'"
        )


def check_argument(name: str, where: str, received: Mapping[str, Any], current: Mapping[str, Any]) -> None:
    """Refuse another value of one argument; integers compare by value, whatever their width on the wire."""
    if (name in received) == (name in current) and canonical(received.get(name)) == canonical(current.get(name)):
        return
    if name in received and name in current:
        check_property(name, where, _text(received[name]), _text(current[name]))
    raise PreconditionFailed(
        f"inequivalent arg '{name}' for {where}: "
        f"received {_described(name, received)} but current is {_described(name, current)}"
    )


def _described(name: str, arguments: Mapping[str, Any]) -> str:
    """One argument with its type, or none."""
    if name not in arguments:
        return "none"
    return f"the value '{_text(arguments[name])}' of type '{type_name(arguments[name])}'"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_EXPONENT_MAX = 40  # any base is over any maximum long before; keeps a huge count from making a huge number


@dataclass(frozen=True, slots=True)
class Backoff:
    """A rule for retries; jitter is the share of a delay that chance may take away."""

    kind: str = "none"
    base_ms: int = 1_000
    max_ms: int = 900_000
    list_ms: tuple[int, ...] = ()
    jitter: float = 0.0


def _listed(backoff: Backoff, deliveries: int) -> int:
    """The n-th delay of the list."""
    return backoff.list_ms[min(max(deliveries, 1), len(backoff.list_ms)) - 1]


_RULES: dict[str, Callable[[Backoff, int], int]] = {
    "none": lambda backoff, deliveries: 0,
    "exponential": lambda backoff, deliveries: min(backoff.base_ms << min(deliveries, _EXPONENT_MAX), backoff.max_ms),
    "linear": lambda backoff, deliveries: min(backoff.base_ms * deliveries, backoff.max_ms),
    "list": _listed,
}
KINDS = tuple(kind for kind in _RULES if kind != "list")


def delay_ms(backoff: Backoff, deliveries: int, random: float = 0.0) -> int:
    """The wait after so many deliveries; `random` from 0 to 1 says how much of the jitter is taken."""
    delay = _RULES[backoff.kind](backoff, deliveries)
    return delay - int(delay * backoff.jitter * random)


ARGUMENTS_MAX = 100  # arguments of a queue are kept and compared for as long as it lives
TIME_MS_MAX = 10 * 365 * 24 * 3600 * 1000  # ten years; now + this stays far below 2**63
COUNT_MAX = 2**53 - 1  # exact for every client that reads JSON numbers as doubles
PRIORITY_MAX = 255  # the width of the priority property
BACKOFF_STEPS_MAX = 100
QUEUE_TYPES = ("classic", "quorum", "stream")
QUEUE_TYPE = "x-queue-type"
QUEUE_VERSIONS = (1, 2)
PARTITIONS = "x-partitions"
PARTITIONS_MAX = 1_024  # of a stream: each has files of its own
SEGMENT_BYTES = "x-stream-max-segment-size-bytes"
SEGMENT_BYTES_MIN = 1_024  # RabbitMQ takes smaller ones, too: here each would be a file for a block
SEGMENT_BYTES_MAX = 3_000_000_000  # as for RabbitMQ: retention frees whole segments, so larger ones keep too much
FILTER_BYTES = "x-stream-filter-size-bytes"
CONSUMER_TIMEOUT = "x-consumer-timeout"
DEAD_LETTER_EXCHANGE = "x-dead-letter-exchange"
DISPLAY_NAME = "x-display-name"
DISPLAY_NAME_CHARS_MAX = 255
DISPLAYED = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
DEAD_LETTER_KEY = "x-dead-letter-routing-key"

UNITS_MS = {
    "Y": 365 * 86_400_000,
    "M": 30 * 86_400_000,
    "D": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
}
INTERVAL = re.compile(r"(\d{1,18})([YMDhms])", re.ASCII)

Parser = Callable[[Any], Any]
_PREFIX = "x-"
_LANES = ("classic", "quorum")  # what has messages that are taken; streams have records that are read


@dataclass(frozen=True, slots=True)
class QueueArgument:
    """One row: field None means that it has no effect on messages."""

    name: str
    field: str | None
    parse: Parser
    queue_types: tuple[str, ...] = _LANES
    by_policy: bool = True
    # Where an argument and a policy both speak: the minimum, instead of the argument.
    minimum: bool = False
    # May an operator policy set it? Then the smaller value of the two wins.
    by_operator: bool = False
    # Must a redeclaration repeat it, or at least not contradict it?
    compared: bool = True
    optional: bool = False
    # May an existing queue get another value, although no policy can set it?
    changeable: bool = False

    @property
    def policy_key(self) -> str:
        return self.name.removeprefix(_PREFIX)


class whole:
    """An integer within limits, whatever its width on the wire; other interfaces ask for the limits."""

    def __init__(self, least: int, most: int, over: str = "value_too_large") -> None:
        """`over` is RabbitMQ's word for a value above the limit."""
        self.least = least
        self.most = most
        self._over = over

    def __call__(self, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool | Timestamp):
            raise ValueError(f'"expected integer, got {type_name(value)}"')
        if value < self.least:
            raise ValueError(f"{{value_zero,{value}}}" if value == 0 else f"{{value_negative,{value}}}")
        if value > self.most:
            raise ValueError(f"{{{self._over},{value}}}")
        return int(value)


def one_of(*choices: str, otherwise: str = "") -> Parser:
    """One of a few words; RabbitMQ has a word for some of the refusals."""

    def parse(value: object) -> str:
        if otherwise and not isinstance(value, str):
            raise ValueError(f"{{unacceptable_type,{type_name(value)}}}")
        if not isinstance(value, str) or value not in choices:
            raise ValueError(otherwise or f"expected one of {', '.join(choices)}, not '{value}'")
        return value

    return parse


def text(value: object) -> str:
    """The name of an exchange, or a routing key."""
    if not isinstance(value, str):
        raise ValueError(f"{{unacceptable_type,{type_name(value)}}}")
    if len(value.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX:
        raise ValueError(f"longer than {NAME_BYTES_MAX} bytes")
    return value


def display_name(value: object) -> str:
    """A name for people; terminals print it, so it has no control characters."""
    if not isinstance(value, str):
        raise ValueError(f"{{unacceptable_type,{type_name(value)}}}")
    if not 0 < len(value) <= DISPLAY_NAME_CHARS_MAX or not DISPLAYED.fullmatch(value):
        raise ValueError(
            f"expected 1 to {DISPLAY_NAME_CHARS_MAX} characters of valid UTF-8, none of them a control character"
        )
    return value


def flag(value: object) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{{unacceptable_type,{type_name(value)}}}")
    return value


def share(value: object) -> float:
    """A number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise ValueError(f"{{unacceptable_type,{type_name(value)}}}")
    number = float(value)
    if math.isnan(number) or not 0 <= number <= 1:
        raise ValueError(f"expected a number from 0 to 1, not {value}")
    return number


def queue_type(value: object) -> str:
    """A queue type that exists."""
    kind: str = text(value)
    if kind not in QUEUE_TYPES:
        raise ValueError(f"\"unsupported queue type '{kind}'\"")
    return kind


def delivery_limit(value: object) -> int | None:
    """A count of deliveries; a negative one is no limit."""
    limit: int = whole(-COUNT_MAX, COUNT_MAX)(value)
    return None if limit < 0 else limit


def retry_backoff(value: object) -> str | tuple[int, ...]:
    """The kind of a backoff, or its delays one by one."""
    if not isinstance(value, (list, tuple)):
        kind: str = one_of(*KINDS)(value)
        return kind
    if not 1 <= len(value) <= BACKOFF_STEPS_MAX:
        raise ValueError(f"expected 1 to {BACKOFF_STEPS_MAX} delays, not {len(value)}")
    return tuple(whole(0, TIME_MS_MAX)(item) for item in value)


def max_age(value: object) -> int:
    """How long a stream keeps its records, such as 7D; in ms."""
    if not isinstance(value, str):
        raise ValueError(f"{{unacceptable_type,{type_name(value)}}}")
    match = INTERVAL.fullmatch(value)
    if match is None or int(match[1]) == 0:
        raise ValueError("invalid_max_age")
    return min(int(match[1]) * UNITS_MS[match[2]], TIME_MS_MAX)


def segment_bytes(value: object) -> int:
    """The size of a file of a stream, at least one block."""
    size: int = _count(value)
    if size > SEGMENT_BYTES_MAX:
        raise InvalidArgument(f"Exceeded max value for {SEGMENT_BYTES}")
    return max(size, SEGMENT_BYTES_MIN)


def filter_bytes(value: object) -> None:
    """The size of a filter in RabbitMQ; filters have no size here."""
    if not 16 <= _count(value) <= 255:
        raise InvalidArgument(f"Invalid value for  {FILTER_BYTES}")


def anything(value: object) -> None:
    """A value that has no effect."""


def queue_version(value: object) -> None:
    """A version of RabbitMQ's classic queues; it has no effect."""
    version = whole(0, COUNT_MAX)(value)
    if version not in QUEUE_VERSIONS:
        raise ValueError(f"\"unsupported queue version '{version}'\"")


def usable(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Stored arguments, or settings of a policy, without a queue version that only earlier versions of Leveret took."""
    names = ("x-queue-version", "queue-version")
    return {
        name: value
        for name, value in stored.items()
        if name not in names or (type(value) is int and value in QUEUE_VERSIONS)
    }


_time = whole(0, TIME_MS_MAX)
positive_time = whole(1, TIME_MS_MAX)
_count = whole(0, COUNT_MAX)
_classic = ("classic",)
_quorum = ("quorum",)
_stream = ("stream",)
_overflow = one_of("drop-head", "reject-publish", "reject-publish-dlx", otherwise="invalid_overflow")
_locator = one_of("client-local", "balanced", "random", "least-leaders", otherwise="invalid_queue_locator_arg")
_strategy = one_of("at-most-once", "at-least-once", otherwise="invalid_dlx_strategy")

_ROWS = (
    # RabbitMQ's names
    QueueArgument("x-expires", "expires_ms", positive_time, minimum=True, by_operator=True),
    QueueArgument("x-message-ttl", "message_ttl_ms", _time, minimum=True, by_operator=True),
    QueueArgument(DEAD_LETTER_EXCHANGE, "dead_letter_exchange", text),
    QueueArgument(DEAD_LETTER_KEY, "dead_letter_routing_key", text),
    QueueArgument("x-dead-letter-strategy", "dead_letter_strategy", _strategy, _quorum),
    QueueArgument("x-max-length", "max_length", _count, minimum=True, by_operator=True),
    QueueArgument("x-max-length-bytes", "max_length_bytes", _count, QUEUE_TYPES, minimum=True, by_operator=True),
    QueueArgument(
        "x-max-priority", "max_priority", whole(0, PRIORITY_MAX, "max_value_exceeded"), _classic, by_policy=False
    ),
    QueueArgument("x-overflow", "overflow", _overflow),
    QueueArgument("x-queue-mode", None, anything, compared=False),
    QueueArgument("x-queue-version", None, queue_version, compared=False),
    QueueArgument("x-single-active-consumer", "single_active_consumer", flag, QUEUE_TYPES, by_policy=False),
    QueueArgument(QUEUE_TYPE, "queue_type", queue_type, QUEUE_TYPES, by_policy=False),
    QueueArgument("x-delivery-limit", "delivery_limit", delivery_limit, by_operator=True),
    QueueArgument("x-quorum-initial-group-size", None, whole(1, COUNT_MAX), _quorum, by_policy=False),
    QueueArgument("x-queue-leader-locator", None, _locator, QUEUE_TYPES),
    QueueArgument("x-max-age", "max_age_ms", max_age, _stream, by_operator=True),
    QueueArgument(SEGMENT_BYTES, "segment_bytes", segment_bytes, _stream),
    QueueArgument(FILTER_BYTES, None, filter_bytes, _stream, by_policy=False),
    QueueArgument("x-initial-cluster-size", None, whole(1, COUNT_MAX), _stream, by_policy=False),
    QueueArgument("x-cancel-on-ha-failover", None, anything, compared=False),
    QueueArgument(CONSUMER_TIMEOUT, "consumer_timeout_ms", positive_time, minimum=True, by_operator=True),
    # Leveret's names: clients that do not know them declare the same queue without them
    QueueArgument("x-priority-mode", "priority_mode", one_of("strict", "weighted", "ageing"), optional=True),
    QueueArgument("x-priority-ageing", "priority_ageing_ms", positive_time, optional=True),
    QueueArgument("x-visibility-timeout", "lease_ms", _time, optional=True),
    QueueArgument("x-delay", "delay_ms", _time, optional=True),
    QueueArgument("x-max-receive-count", "max_receives", whole(1, COUNT_MAX), by_operator=True, optional=True),
    QueueArgument("x-retention", "retention_ms", positive_time, by_operator=True, optional=True),
    QueueArgument("x-retry-backoff", "backoff_kind", retry_backoff, optional=True),
    QueueArgument("x-retry-backoff-base", "backoff_base_ms", _time, optional=True),
    QueueArgument("x-retry-backoff-max", "backoff_max_ms", _time, optional=True),
    QueueArgument("x-retry-backoff-jitter", "backoff_jitter", share, optional=True),
    QueueArgument("x-deduplication-window", "dedup_window_ms", positive_time, QUEUE_TYPES, optional=True),
    QueueArgument("x-deduplication-scope", "dedup_scope", one_of("queue", "group"), optional=True),
    QueueArgument("x-content-deduplication", "content_dedup", flag, optional=True),
    QueueArgument(
        "x-max-message-size", "max_message_bytes", whole(1, COUNT_MAX), QUEUE_TYPES, by_operator=True, optional=True
    ),
    QueueArgument("x-message-groups", "groups", one_of("off", "fifo", "fifo-batch", "fair"), optional=True),
    QueueArgument(DISPLAY_NAME, None, display_name, QUEUE_TYPES, by_policy=False, optional=True, changeable=True),
    QueueArgument(PARTITIONS, "partitions", whole(1, PARTITIONS_MAX), _stream, by_policy=False, optional=True),
)
ARGUMENTS: dict[str, QueueArgument] = {row.name: row for row in _ROWS}


def parse(arguments: Mapping[str, Any], queue: str, queue_type: str = "classic", vhost: str = "/") -> dict[str, Any]:
    """The fields that a queue's arguments set, checked."""
    where = described("queue", queue, vhost)
    if len(arguments) > ARGUMENTS_MAX:
        raise InvalidArgument(f"{len(arguments)} arguments for {where}: the limit is {ARGUMENTS_MAX}")
    if queue_type in _LANES:
        _check_dead_letters(arguments, where)
    given = [row for row in _ROWS if row.name in arguments]
    fields = {row.field: _read(row, arguments, where) for row in given if queue_type in row.queue_types}
    for name in arguments:
        if name in ARGUMENTS and queue_type not in ARGUMENTS[name].queue_types:
            raise InvalidArgument(f"invalid arg '{name}' for {where} of queue type {known_as(queue_type)}")
    return {field: value for field, value in fields.items() if field is not None}


def _check_dead_letters(arguments: Mapping[str, Any], where: str) -> None:
    """Refuse an exchange that is no name, and a key without an exchange."""
    exchange = arguments.get(DEAD_LETTER_EXCHANGE, "")
    if not isinstance(exchange, str):
        raise InvalidArgument(f"invalid type '{type_name(exchange)}' for arg '{DEAD_LETTER_EXCHANGE}' in {where}")
    if DEAD_LETTER_KEY in arguments and DEAD_LETTER_EXCHANGE not in arguments:
        raise InvalidArgument(f"invalid arg '{DEAD_LETTER_KEY}' for {where}: routing_key_but_no_dlx_defined")


def _read(row: QueueArgument, arguments: Mapping[str, Any], where: str) -> Any:
    try:
        return row.parse(arguments[row.name])
    except InvalidArgument:
        raise  # it says all that there is to say
    except ValueError as error:
        raise InvalidArgument(f"invalid arg '{row.name}' for {where}: {error}") from None


def limits_of(name: str) -> tuple[int, int]:
    """The least and the largest value of an argument that is a whole number."""
    parser = ARGUMENTS[name].parse
    assert isinstance(parser, whole), f"{name} is no whole number"
    return parser.least, parser.most


def queue_type_of(arguments: Mapping[str, Any], queue: str, vhost: str = "/", default: str = "classic") -> str:
    """The type that a declaration asks for."""
    chosen = {QUEUE_TYPE: arguments.get(QUEUE_TYPE, default)}
    asked: str = parse(chosen, queue, vhost=vhost)["queue_type"]
    return asked


def known_as(queue_type: str) -> str:
    """What refusals call a type of queues."""
    return f"rabbit_{queue_type}_queue"


def check_equivalent(current: Mapping[str, Any], received: Mapping[str, Any], queue: str, vhost: str = "/") -> None:
    """Refuse a redeclaration with other arguments; classic is the same as none."""
    where = described("queue", queue, vhost)
    current, received = _without_classic(current, received), _without_classic(received, current)
    for row in _ROWS:
        if row.compared and not (row.optional and row.name not in received):
            check_argument(row.name, where, received, current)


def _without_classic(arguments: Mapping[str, Any], others: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments without the type that a queue has anyway, where the others do not name one."""
    if QUEUE_TYPE in others or arguments.get(QUEUE_TYPE) != "classic":
        return arguments
    return {name: value for name, value in arguments.items() if name != QUEUE_TYPE}


def sent_delay_ms(value: Any) -> int:
    """The delay that a publisher asks a delaying exchange for."""
    if not isinstance(value, int) or isinstance(value, bool) or value > TIME_MS_MAX:
        raise InvalidArgument(f"the header x-delay is a whole number of milliseconds, at most {TIME_MS_MAX}")
    return max(0, value)
