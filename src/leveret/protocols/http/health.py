"""Whether the server lives, and whether clients should be sent to it: for supervisors, which have no login.

/health/live says that the event loop turns. /health/ready fails while the server stops, or when the broker takes
nothing any more. A shortage of memory or disk does not: consumers have to come, or it would never end.
"""

from collections.abc import Callable

from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Response, json_response
from leveret.protocols.http.router import Router
from leveret.runtime.runtime import Runtime

PREFIX = b"/health/"
NO_STORE = (("Cache-Control", "no-store"),)


class Health:
    """A handler for the paths under /health."""

    def __init__(
        self,
        runtime: Runtime,
        stopping: Callable[[], bool],
        alarm: Callable[[], str | None],
        degraded: Callable[[], list[str]] = list,
    ) -> None:
        """What tells about the server that the broker is in; a degraded one is as ready as any."""
        self._runtime = runtime
        self._stopping = stopping
        self._alarm = alarm
        self._degraded = degraded
        self.answer = Router({("GET", "/health/live"): self._live, ("GET", "/health/ready"): self._ready})

    def _live(self, request: Request) -> Response:
        return json_response({"status": "ok"}, headers=NO_STORE)

    def _ready(self, request: Request) -> Response:
        store = self._runtime.store
        failures = {
            "the server stops": self._stopping(),
            "the broker is closed": self._runtime.closed,
            "the journal has stopped": store is not None and store.commit.failed is not None,
        }
        reasons = [reason for reason, failed in failures.items() if failed]
        told = {"status": "failed" if reasons else "ok", "reasons": reasons, "alarm": self._alarm()}
        told["degraded"] = self._degraded()
        return json_response(told, 503 if reasons else 200, NO_STORE)


def owns(request: Request) -> bool:
    """Whether a path is one of these."""
    return request.raw_path.startswith(PREFIX)
