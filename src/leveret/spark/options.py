"""Options of a source as Spark gives them: texts under lower-case names."""

import json
import warnings
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from leveret.core.errors import InvalidArgument

Options = Mapping[str, str]
WHOLE_MAX = (1 << 63) - 1
_SERVER = ("url", "token", "caFile", "certFile", "keyFile", "vhost", "requestTimeout")
_LIVE = (*_SERVER, "retryTimeout", "columns", "includeHeaders")
_BATCHES = (
    "maxRecordsPerTrigger", "maxBytesPerTrigger", "minRecordsPerTrigger", "maxTriggerDelay", "minPartitions",
    "maxRecordsPerPartition", "failOnDataLoss",
)  # fmt: skip
_KEYS = ("encryption_key_file", "encryption_key_env")
_HISTORY = ("path", "archive", "table", "columns", "queue", "since", "until", "partitionBytes", *_KEYS)
NAMES: dict[str, tuple[str, ...]] = {
    "history": _HISTORY,
    "stream": (
        *_LIVE, *_BATCHES, *_KEYS, "path", "group", "stream", "streams", "streamPattern", "assign", "startingOffsets",
        "endingOffsets", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp",
    ),
    "queue": (*_LIVE, *_BATCHES, "queue", "group", "lease", "groupsTogether", "since", "until", "routingKey"),
    "sink": (
        *_SERVER, "sinkId", "unroutable", "commitTimeout", "queue", "exchange", "routingKey", "contentType",
        "contentEncoding", "priority", "delayMs", "ttlMs", "messageGroupId", "correlationId", "replyTo", "type",
        "appId", "checkpointLocation", "queryName",
    ),
}  # fmt: skip
"""Every option of each kind of source, and of sinks."""
_TABLE = frozenset(("owner", "provider", "location", "comment", "external", "is_managed_location", "collation"))
"""Properties of tables that Spark hands to their source as options."""
_WITHDRAWN = "pushdown"
_PREFIXES = ("kafka.", "leveret.")
"""Options of a client have none; other names with a dot are those of Spark's own."""
_SUGGESTED_FROM = 0.7


def check_names(options: Options, *kinds: str) -> None:
    """Refuse options that none of these kinds has; Spark gives them in lower case."""
    known = {name.lower(): name for kind in kinds for name in NAMES[kind]}
    for name in options:
        if name == _WITHDRAWN:
            warnings.warn(
                "the option pushdown does nothing any more, because Spark uses what it pushed down for a query again "
                "for other queries of the same DataFrame: name what is wanted by queue, since and until",
                stacklevel=2,
            )
        elif name not in known and name not in _TABLE and ("." not in name or name.startswith(_PREFIXES)):
            close = get_close_matches(name.split(".")[-1], known, 1, _SUGGESTED_FROM)
            others = [kind for kind, names in NAMES.items() if name in map(str.lower, names)]
            hint = f"did you mean {known[close[0]]}?" if close else f"it has {', '.join(sorted(known.values()))}"
            if others:
                hint = f"this is an option of {' and '.join(others)}"
            raise InvalidArgument(f"{' and '.join(kinds)} have no option {name!r}: {hint}")


def required(options: Options, name: str) -> str:
    """An option that has to be given."""
    value = options.get(name.lower())
    if not value:
        raise InvalidArgument(f"the option {name} is missing: see the table of options in the documentation")
    return value


def whole(options: Options, name: str, default: int | None = None, least: int = 1) -> int | None:
    """A whole number, or the default."""
    text = options.get(name.lower())
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= WHOLE_MAX):
        raise InvalidArgument(f"{name}={text!r}: give a whole number, at least {least}")
    return int(text)


def flag(options: Options, name: str, default: bool) -> bool:
    """True or false."""
    value = options.get(name.lower(), str(default)).lower()
    if value not in ("true", "false"):
        raise InvalidArgument(f"{name}={value!r}: give true or false")
    return value == "true"


def seconds(options: Options, name: str, default: float) -> float:
    """A time span: a number of seconds, or of another unit as in 500ms, 10s, 5m, 2h."""
    text = options.get(name.lower())
    if text is None:
        return default
    for unit, length_s in {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}.items():
        number = text.strip().removesuffix(unit).strip() if unit else text.strip()
        if text.strip().endswith(unit) and number.isascii() and number.isdigit() and len(number) < 10:
            return int(number) * length_s
    raise InvalidArgument(f"{name}={text!r}: give a time span such as 500ms, 10s or 5m")


def moment_ms(name: str, text: str) -> int:
    """A time in ms since 1970."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(f"{name}={text!r}: give a time such as 2026-01-31T12:00:00") from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)


def by_partition(name: str, text: str, streams: Collection[str]) -> dict[str, dict[str, Any]]:
    """What JSON says of the partitions of each stream; of one stream its name may be left out."""
    try:
        found: Any = json.loads(text)
        if len(streams) == 1 and not any(isinstance(value, dict) for value in found.values()):
            found = {next(iter(streams)): found}
        if all(isinstance(value, dict) for value in found.values()):
            return {stream: dict(value) for stream, value in found.items()}
    except (ValueError, AttributeError):
        found = None
    raise InvalidArgument(
        f'{name}={text!r}: give earliest, latest, a time such as 2026-01-31T12:00:00, or {{"0": 42, ...}}; for several '
        'streams {"clicks": {"0": 42, "1": -1, "default": -2}, ...}'
    )
