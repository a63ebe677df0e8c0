"""The options of a queue: what they are called here, which argument each sets, and how it is converted."""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from leveret.core.arguments import DISPLAY_NAME
from leveret.core.equivalence import check_argument
from leveret.core.errors import InvalidArgument
from leveret.runtime.options import unknown_name

Convert = Callable[[str, Any], Any]
DAY_S = 24 * 3600


def milliseconds(name: str, seconds: Any) -> int:
    """Seconds as the core counts them."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise InvalidArgument(f"{name} is a number of seconds, not {seconds!r}")
    if seconds < 0:
        raise InvalidArgument(f"{name} is {seconds} seconds: give 0 or more")
    return round(seconds * 1000)


def as_it_is(name: str, value: Any) -> Any:
    """What the core checks itself."""
    return value


def backoff(name: str, value: Any) -> Any:
    """The kind of a backoff, or its delays in seconds."""
    if isinstance(value, list | tuple):
        return [milliseconds(name, seconds) for seconds in value]
    return value


class Option(NamedTuple):
    """One option: the argument that it sets, how, and the value that a new queue has without it."""

    argument: str
    convert: Convert = as_it_is
    default: Any = None


OPTIONS: dict[str, Option] = {
    "visibility_timeout": Option("x-visibility-timeout", milliseconds, 30),
    "max_retries": Option("x-max-receive-count"),
    "dead_letter": Option("x-dead-letter-routing-key"),
    "max_priority": Option("x-max-priority"),
    "priority_mode": Option("x-priority-mode"),
    "ageing": Option("x-priority-ageing", milliseconds),
    "delay": Option("x-delay", milliseconds),
    "ttl": Option("x-message-ttl", milliseconds),
    "expires": Option("x-expires", milliseconds),
    "max_length": Option("x-max-length"),
    "max_bytes": Option("x-max-length-bytes"),
    "overflow": Option("x-overflow"),
    "retention": Option("x-retention", milliseconds, 14 * DAY_S),
    "backoff": Option("x-retry-backoff", backoff, "exponential"),
    "backoff_jitter": Option("x-retry-backoff-jitter"),
    "dedup_window": Option("x-deduplication-window", milliseconds),
    "dedup_scope": Option("x-deduplication-scope"),
    "content_dedup": Option("x-content-deduplication"),
    "groups": Option("x-message-groups", default="fifo"),
    "max_message_size": Option("x-max-message-size"),
    "single_active_consumer": Option("x-single-active-consumer"),
    "display_name": Option(DISPLAY_NAME),
}
DEAD_LETTER_EXCHANGE = "x-dead-letter-exchange"
# Without a place for dead letters a limit would lose messages: then it is set only by those who ask for it.
MAX_RETRIES_DEFAULT = 3


def arguments_of(options: Mapping[str, Any], raw: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that the given options set; None sets nothing."""
    arguments: dict[str, Any] = {}
    for name, value in options.items():
        row = OPTIONS.get(name)
        if row is None:
            raise unknown_name("queue option", name, [*OPTIONS, "arguments", "durable"])
        if value is not None:
            arguments[row.argument] = row.convert(name, value)
    if OPTIONS["dead_letter"].argument in arguments:
        arguments[DEAD_LETTER_EXCHANGE] = ""
    return {**arguments, **raw}


def new_arguments(options: Mapping[str, Any], raw: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a queue that is made with these options."""
    defaults = {name: row.default for name, row in OPTIONS.items() if row.default is not None}
    if options.get("dead_letter") is not None:
        defaults["max_retries"] = MAX_RETRIES_DEFAULT
    return arguments_of({**defaults, **options}, raw)


def redeclared(
    current: Mapping[str, Any], options: Mapping[str, Any], raw: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """What a declaration of an existing queue amounts to: options that are not given stay as they are."""
    given = arguments_of(options, raw)
    for unset in (OPTIONS[name].argument for name, value in options.items() if value is None):
        check_argument(unset, where, given, current)
    return {**current, **given}


def changed_arguments(current: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a queue whose options change; None takes one away."""
    unset = {OPTIONS[name].argument for name, value in options.items() if value is None}
    if OPTIONS["dead_letter"].argument in unset:
        unset.add(DEAD_LETTER_EXCHANGE)
    kept = {name: value for name, value in current.items() if name not in unset}
    return {**kept, **arguments_of(options, {})}
