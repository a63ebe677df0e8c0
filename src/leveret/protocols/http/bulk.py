"""Operations on many messages at once: what the audit log says of which messages they are about, and how many."""

import json
from typing import Any

from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Response

ASKED = ("to", "destination", "limit", "rate_per_second", "dry_run", "filter")
COUNTED = ("matched", "moved", "skipped", "purged")
PURGED = "X-Messages-Deleted"
BODY_BYTES_MAX = 65_536  # of a body that is looked at here


def asked_for(request: Request) -> dict[str, object]:
    """Which messages a request is about, where they go, and whether it is only a preview (`dry_run`)."""
    asked = _object(request.body)
    return {name: asked[name] for name in ASKED if name in asked}


def came_of(answer: Response) -> dict[str, object]:
    """How many messages it was about."""
    told = _object(answer.body)
    counts: dict[str, object] = {name: told[name] for name in COUNTED if name in told}
    purged = dict(answer.headers).get(PURGED)
    return counts if purged is None else {**counts, "purged": int(purged)}


def _object(body: bytes) -> dict[str, Any]:
    """The JSON object of a body; one that cannot be read is refused elsewhere."""
    try:
        value = json.loads(body) if len(body) <= BODY_BYTES_MAX else None
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
