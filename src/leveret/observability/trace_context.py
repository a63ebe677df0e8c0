"""The trace that a message belongs to, as W3C and AWS write it.

traceparent      00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01       see core/tracing.pyx
tracestate       one=4711,other=00f067aa0ba902b7                               what tracing systems add to it
AWSTraceHeader   Root=1-0af76519-16cd43dd8448eb211c80319c;Parent=b7ad6b7169203331;Sampled=1
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from leveret.core.tracing import TRACEPARENT, TRACESTATE

CONTEXT_CHARS_MAX = 512  # of a traceparent and of a tracestate: all of it is kept with every span
AWS_CHARS_MAX = 1_024
MEMBERS_MAX = 32  # of a tracestate
TIME_DIGITS = 8  # of the trace, in front: AWS has the second in which it began there

_TRACEPARENT = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
# A name, which may be one of several tenants of a system, and printable text without commas and signs of equality.
_MEMBER = re.compile(
    r"(?:[a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})=[!-+.-<>-~ -]{1,256}"
)
_ROOT = re.compile(r"1-([0-9a-f]{8})-([0-9a-f]{24})")
_SPAN = re.compile(r"[0-9a-f]{16}")


class TraceContext(NamedTuple):
    """A span of a trace, for its children."""

    trace_id: int
    span_id: int
    sampled: bool
    state: str = ""

    @property
    def traceparent(self) -> str:
        """The header that carries it."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.sampled:02x}"


def parse(traceparent: object, tracestate: object = None) -> TraceContext | None:
    """The context in two headers; None when the first is malformed. A malformed second one counts as missing."""
    text = _text(traceparent)
    found = _TRACEPARENT.fullmatch(text) if len(text) <= CONTEXT_CHARS_MAX else None
    if found is None or (found[1] == "00" and found[5]):
        return None
    trace_id, span_id, flags = (int(found[each], 16) for each in (2, 3, 4))
    if not trace_id or not span_id:
        return None
    return TraceContext(trace_id, span_id, bool(flags & 1), _state(_text(tracestate)))


def _state(text: str) -> str:
    """A tracestate that others can read; nothing in place of one that they would complain about."""
    if not text or len(text) > CONTEXT_CHARS_MAX:
        return ""
    members = [member.strip(" \t") for member in text.split(",")]
    names = {member.partition("=")[0] for member in members}
    if len(names) < len(members) or len(members) > MEMBERS_MAX or not all(map(_MEMBER.fullmatch, members)):
        return ""
    return ",".join(members)


def context_of(headers: Mapping[str, Any] | None) -> TraceContext | None:
    """The context that a message carries."""
    return None if not headers else parse(headers.get(TRACEPARENT), headers.get(TRACESTATE))


def _text(value: object) -> str:
    """A header as text; some clients send bytes."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value if isinstance(value, str) else ""


def is_aws(header: str) -> bool:
    """Whether a text is a trace header of AWS: it names a trace, though perhaps no span."""
    printable = len(header) <= AWS_CHARS_MAX and header.isascii() and header.isprintable()
    return printable and _ROOT.fullmatch(_aws_fields(header).get("Root", "")) is not None


def _aws_fields(header: str) -> dict[str, str]:
    pairs = header[:AWS_CHARS_MAX].split(";")
    return {name.strip(): value.strip() for name, _, value in (pair.partition("=") for pair in pairs)}


def from_aws(header: str) -> TraceContext | None:
    """The context in a trace header of AWS; None when it does not name trace and span."""
    fields = _aws_fields(header)
    root, parent = _ROOT.fullmatch(fields.get("Root", "")), fields.get("Parent", "")
    if root is None or not _SPAN.fullmatch(parent):
        return None
    trace_id, span_id = int(root[1] + root[2], 16), int(parent, 16)
    if not trace_id or not span_id:
        return None
    return TraceContext(trace_id, span_id, fields.get("Sampled") == "1")


def to_aws(context: TraceContext) -> str:
    """The same as a trace header of AWS."""
    trace = f"{context.trace_id:032x}"
    root = f"1-{trace[:TIME_DIGITS]}-{trace[TIME_DIGITS:]}"
    return f"Root={root};Parent={context.span_id:016x};Sampled={context.sampled:d}"
