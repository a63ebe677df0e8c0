"""Options given by keyword: refused when they are unknown or cannot work."""

from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from leveret.config import Options
from leveret.core.errors import InvalidArgument

POSITIVE = ("blob_bytes", "message_bytes_max", "tracing_spans_max")


def unknown_name(what: str, name: str, known: list[str]) -> InvalidArgument:
    """The refusal of a name that does not exist, with the one that was probably meant."""
    near = get_close_matches(name, known, n=1)
    advice = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}"
    return InvalidArgument(f"unknown {what} {name!r}: {advice}")


def options_of(given: dict[str, Any]) -> Options:
    """Options from keywords, checked; the journal checks what is only its own."""
    known = [each.name for each in fields(Options)]
    for name in given:
        if name not in known:
            raise unknown_name("option", name, known)
    options = Options(**given)
    if options.on_failure not in ("exit", "raise"):
        raise InvalidArgument(f"on_failure is exit or raise, not {options.on_failure!r}")
    for name in POSITIVE:
        if getattr(options, name) < 1:
            raise InvalidArgument(f"{name} must be positive")
    if not 0 <= options.tracing_ratio <= 1:
        raise InvalidArgument(f"tracing_ratio is 0 to 1, not {options.tracing_ratio!r}")
    return options
