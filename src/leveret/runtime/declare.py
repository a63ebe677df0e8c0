"""Declarations of queues, streams and exchanges, made if need be.

Options of a queue: what they are called here, which argument each sets, and how it is converted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from leveret.core.arguments import DISPLAY_NAME, QUEUE_TYPE, check_argument
from leveret.core.broker import Broker as Core
from leveret.core.errors import InvalidArgument, NotSupported
from leveret.core.names import described
from leveret.core.queue import Queue as CoreQueue
from leveret.core.queue_types import STREAM
from leveret.runtime.verbs import Durable, deprecated
from leveret.storage.options import unknown_name

if TYPE_CHECKING:
    from leveret.runtime.runtime import Runtime

VHOST = "/"
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
    "max_deliveries": Option("x-max-receive-count"),
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
OLD_NAMES = {"max_retries": "max_deliveries"}
DEAD_LETTER_EXCHANGE = "x-dead-letter-exchange"
# Without a place for dead letters a limit would lose messages: then it is set only by those who ask for it.
MAX_DELIVERIES_DEFAULT = 3


def with_new_names(options: Mapping[str, Any], warn: Callable[[str], None] | None = deprecated) -> dict[str, Any]:
    """Options of a queue by the names that they have now; where both are given, the new one counts."""
    renamed = {OLD_NAMES[old]: options[old] for old in OLD_NAMES.keys() & options.keys()}
    if warn is not None and renamed:
        warn(f"the option is called {', '.join(renamed)} now: it counts deliveries, the first one included")
    return {**renamed, **{name: value for name, value in options.items() if name not in OLD_NAMES}}


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
        defaults["max_deliveries"] = MAX_DELIVERIES_DEFAULT
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


def declare_queues(
    runtime: Runtime,
    names: Iterable[str],
    options: Mapping[str, Any],
    *,
    vhost: str = VHOST,
    durable: bool = True,
    arguments: Mapping[str, Any] | None = None,
    create: bool = True,
) -> Durable[list[CoreQueue]]:
    """The queues of these names, made if need be; options that contradict an existing one are refused."""
    raw, options = dict(arguments or {}), with_new_names(options)
    if raw.get(QUEUE_TYPE) == STREAM:
        raise InvalidArgument("a stream is made by broker.stream(), and that gives what reads it")
    wanted = new_arguments(options, raw)
    with runtime as core:
        known = core.topology.vhost(vhost).queues
        before = core.log.last_queue_id
        queues = []
        for name in names:
            existing = known.get(name) if create else core.topology.vhost(vhost).queue(name)
            if existing is None:
                queues.append(core.declare_queue(vhost, name, wanted, durable=durable))
            elif options or raw:
                again = redeclared(existing.arguments or {}, options, raw, described("queue", name, vhost))
                queues.append(core.declare_queue(vhost, name, again, durable=durable))
            else:
                queues.append(existing)
        _declare_dead_letter(core, vhost, options.get("dead_letter"))
        commit_batch = runtime.commit() if core.log.last_queue_id != before else 0
    return commit_batch, queues


def _declare_dead_letter(core: Core, vhost: str, name: str | None) -> None:
    """Make the queue for dead letters if there is none; it has no dead letters of its own."""
    if name is not None and name not in core.topology.vhost(vhost).queues:
        core.declare_queue(vhost, name, new_arguments({}, {}))


def declare_stream(
    runtime: Runtime, name: str, arguments: Mapping[str, Any], vhost: str = VHOST, *, create: bool = True
) -> Durable[CoreQueue]:
    """The stream of that name, made if need be."""
    with runtime as core:
        known = core.topology.vhost(vhost)
        existing = known.queues.get(name) if create else known.queue(name)
        if existing is None or arguments:
            kept = {} if existing is None else existing.arguments or {}
            existing = core.declare_queue(vhost, name, {**kept, **arguments, QUEUE_TYPE: STREAM})
        if existing.recorder is None:
            raise NotSupported(f"'{name}' is a queue, no stream: use broker.queue(), or another name")
        return runtime.commit(), existing


def declare_exchange(
    runtime: Runtime, name: str, type: str | None = None, *, vhost: str = VHOST, **options: Any
) -> Durable[None]:
    """Make an exchange if need be: direct unless told otherwise."""
    with runtime as core:
        if type is not None or name not in core.topology.vhost(vhost).exchanges:
            core.declare_exchange(vhost, name, type or "direct", **options)
        return runtime.commit(), None
