"""The audit log: its newest rows, and the last line of each file."""

from dataclasses import asdict
from typing import Any

from leveret.core.errors import InvalidArgument, PreconditionFailed
from leveret.observability.alerting.payloads import time_of
from leveret.observability.audit import ENTRIES_MAX, KINDS, Audit
from leveret.server.administration.context import Verb, VerbContext

ROWS = 100  # that are listed unless others are asked for
OWN = frozenset(("at_ms", "kind", "by", "act", "outcome", "peer", "count"))


def list_rows(context: VerbContext, limit: int = ROWS, kind: str | None = None) -> list[dict[str, Any]]:
    """The last rows, the newest first."""
    chosen = next((each for each in KINDS if each == kind), None)
    if kind is not None and chosen is None:
        raise InvalidArgument(f"the kinds of rows are {', '.join(KINDS)}, not {kind!r}")
    rows = _log_of(context).recent(max(0, min(limit, ENTRIES_MAX)), chosen)
    return [
        {
            **row,
            "at": time_of(row["at_ms"]),
            "peer": row.get("peer"),
            "count": row.get("count"),
            "about": " ".join(f"{name}={value}" for name, value in row.items() if name not in OWN),
        }
        for row in rows
    ]


def heads(context: VerbContext) -> dict[str, Any]:
    """The last line of each log that is in its file."""
    return {kind: asdict(head) for kind, head in _log_of(context).heads().items()}


def _log_of(context: VerbContext) -> Audit:
    if context.audit is None:
        raise PreconditionFailed("there is no audit log here: ask the server")
    return context.audit


VERBS: dict[str, Verb] = {"audit.list": list_rows, "audit.heads": heads}
