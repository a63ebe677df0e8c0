"""Queue arguments and policy keys in one table: name, the QueuePolicy field it sets, how it is read, who may use it.

The policy key is the argument's name without "x-". Names that are not in the table pass without effect, as in RabbitMQ.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from leveret.core.backoff import KINDS
from leveret.core.equivalence import check_argument, type_name
from leveret.core.errors import InvalidArgument
from leveret.core.names import NAME_BYTES_MAX, described

ARGUMENTS_MAX = 100  # arguments of a queue are kept and compared for as long as it lives
TIME_MS_MAX = 10 * 365 * 24 * 3600 * 1000  # ten years; now + this stays far below 2**63
COUNT_MAX = 2**53 - 1  # exact for every client that reads JSON numbers as doubles
PRIORITY_MAX = 255  # the width of the priority property
BACKOFF_STEPS_MAX = 100
QUEUE_TYPES = ("classic", "quorum")

Parser = Callable[[Any], Any]
_PREFIX = "x-"


@dataclass(frozen=True, slots=True)
class Argument:
    """One row: field None means accepted without effect."""

    name: str
    field: str | None
    parse: Parser
    queue_types: tuple[str, ...] = QUEUE_TYPES
    by_policy: bool = True
    # Where an argument and a policy both speak: the minimum, instead of the argument.
    minimum: bool = False
    # May an operator policy set it? Then the smaller value of the two wins.
    by_operator: bool = False
    compared: bool = True

    @property
    def policy_key(self) -> str:
        """Its name in a policy's definition."""
        return self.name.removeprefix(_PREFIX)


def whole(least: int, most: int, over: str = "value_too_big") -> Parser:
    """An integer within limits."""

    def parse(value: object) -> int:
        if type(value) is not int:
            raise ValueError(f"{{unacceptable_type,{type_name(value)}}}")
        if value < least:
            raise ValueError(f"{{value_zero,{value}}}" if value == 0 else f"{{value_negative,{value}}}")
        if value > most:
            raise ValueError(f"{{{over},{value}}}")
        return value

    return parse


def one_of(*choices: str) -> Parser:
    """One of a few words."""

    def parse(value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise ValueError(f"expected one of {', '.join(choices)}, not '{value}'")
        return value

    return parse


def text(value: object) -> str:
    """The name of an exchange, or a routing key."""
    if not isinstance(value, str):
        raise ValueError(f"{{unacceptable_type,{type_name(value)}}}")
    if len(value.encode("utf-8", "surrogatepass")) > NAME_BYTES_MAX:
        raise ValueError(f"longer than {NAME_BYTES_MAX} bytes")
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
    if kind == "stream":
        raise ValueError("streams are not supported yet: use classic or quorum")
    if kind not in QUEUE_TYPES:
        raise ValueError(f"\"unsupported queue type '{kind}'\"")
    return kind


def delivery_limit(value: object) -> int | None:
    """A count of deliveries; -1 is no limit."""
    limit: int = whole(-1, COUNT_MAX)(value)
    return None if limit == -1 else limit


def retry_backoff(value: object) -> str | tuple[int, ...]:
    """The kind of a backoff, or its delays one by one."""
    if not isinstance(value, (list, tuple)):
        kind: str = one_of(*KINDS)(value)
        return kind
    if not 1 <= len(value) <= BACKOFF_STEPS_MAX:
        raise ValueError(f"expected 1 to {BACKOFF_STEPS_MAX} delays, not {len(value)}")
    return tuple(whole(0, TIME_MS_MAX)(item) for item in value)


def anything(value: object) -> None:
    """A value that has no effect."""


_time = whole(0, TIME_MS_MAX)
_positive_time = whole(1, TIME_MS_MAX)
_count = whole(0, COUNT_MAX)
_classic = ("classic",)
_quorum = ("quorum",)

_ROWS = (
    # RabbitMQ's names
    Argument("x-queue-type", "queue_type", queue_type, by_policy=False),
    Argument("x-message-ttl", "message_ttl_ms", _time, minimum=True, by_operator=True),
    Argument("x-expires", "expires_ms", _positive_time, minimum=True, by_operator=True),
    Argument("x-max-length", "max_length", _count, minimum=True, by_operator=True),
    Argument("x-max-length-bytes", "max_length_bytes", _count, minimum=True, by_operator=True),
    Argument("x-overflow", "overflow", one_of("drop-head", "reject-publish", "reject-publish-dlx")),
    Argument("x-dead-letter-exchange", "dead_letter_exchange", text),
    Argument("x-dead-letter-routing-key", "dead_letter_routing_key", text),
    Argument("x-dead-letter-strategy", None, one_of("at-most-once", "at-least-once"), _quorum),
    Argument("x-delivery-limit", "delivery_limit", delivery_limit, by_operator=True),
    Argument("x-max-priority", "max_priority", whole(0, PRIORITY_MAX, "max_value_exceeded"), _classic, by_policy=False),
    Argument("x-single-active-consumer", "single_active_consumer", flag, by_policy=False),
    Argument("x-consumer-timeout", "consumer_timeout_ms", _positive_time, by_operator=True),
    Argument("x-queue-mode", None, anything, compared=False),
    Argument("x-queue-version", None, anything, compared=False),
    Argument("x-queue-leader-locator", None, anything, compared=False),
    Argument("x-quorum-initial-group-size", None, anything, compared=False),
    Argument("x-cancel-on-ha-failover", None, anything, compared=False),
    # Leveret's names
    Argument("x-priority-mode", "priority_mode", one_of("strict", "weighted", "ageing")),
    Argument("x-priority-ageing", "priority_ageing_ms", _positive_time),
    Argument("x-visibility-timeout", "lease_ms", _time),
    Argument("x-delay", "delay_ms", _time),
    Argument("x-max-receive-count", "max_receives", whole(1, COUNT_MAX), by_operator=True),
    Argument("x-retention", "retention_ms", _positive_time, by_operator=True),
    Argument("x-retry-backoff", "backoff_kind", retry_backoff),
    Argument("x-retry-backoff-base", "backoff_base_ms", _time),
    Argument("x-retry-backoff-max", "backoff_max_ms", _time),
    Argument("x-retry-backoff-jitter", "backoff_jitter", share),
    Argument("x-deduplication-window", "dedup_window_ms", _positive_time),
    Argument("x-deduplication-scope", "dedup_scope", one_of("queue", "group")),
    Argument("x-content-deduplication", "content_dedup", flag),
    Argument("x-max-message-size", "max_message_bytes", whole(1, COUNT_MAX), by_operator=True),
    Argument("x-message-groups", "groups", one_of("off", "fifo", "fifo-batch", "fair")),
)
ARGUMENTS: dict[str, Argument] = {row.name: row for row in _ROWS}


def parse(arguments: Mapping[str, Any], queue: str, queue_type: str = "classic", vhost: str = "/") -> dict[str, Any]:
    """The fields that a queue's arguments set, checked."""
    where = described("queue", queue, vhost)
    if len(arguments) > ARGUMENTS_MAX:
        raise InvalidArgument(f"{len(arguments)} arguments for {where}: the limit is {ARGUMENTS_MAX}")
    if "x-dead-letter-routing-key" in arguments and "x-dead-letter-exchange" not in arguments:
        raise InvalidArgument(f"invalid arg 'x-dead-letter-routing-key' for {where}: routing_key_but_no_dlx_defined")
    fields = {}
    for row in (ARGUMENTS[name] for name in arguments if name in ARGUMENTS):
        if queue_type not in row.queue_types:
            raise InvalidArgument(f"invalid arg '{row.name}' for {where} of queue type {queue_type}")
        try:
            value = row.parse(arguments[row.name])
        except ValueError as error:
            raise InvalidArgument(f"invalid arg '{row.name}' for {where}: {error}") from None
        if row.field is not None:
            fields[row.field] = value
    return fields


def queue_type_of(arguments: Mapping[str, Any], queue: str, vhost: str = "/", default: str = "classic") -> str:
    """The type that a declaration asks for."""
    chosen = {"x-queue-type": arguments.get("x-queue-type", default)}
    asked: str = parse(chosen, queue, vhost=vhost)["queue_type"]
    return asked


def check_equivalent(current: Mapping[str, Any], received: Mapping[str, Any], queue: str, vhost: str = "/") -> None:
    """Refuse a redeclaration with other arguments; classic is the same as none."""
    where = described("queue", queue, vhost)
    current, received = _without_classic(current), _without_classic(received)
    for row in _ROWS:
        if row.compared:
            check_argument(row.name, where, received, current)


def _without_classic(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments without the type that a queue has anyway."""
    return {name: value for name, value in arguments.items() if (name, value) != ("x-queue-type", "classic")}
