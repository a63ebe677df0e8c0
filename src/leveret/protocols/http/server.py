"""An HTTP server in an event loop: listeners, connections, and the once-a-second look at all of them.

    server = HttpServer(handler, Limits(), admission, SystemClock())
    server.listen(bind("127.0.0.1", 8080))
    ...
    server.stop_listening()
    await server.drain(timeout_s)

A handler takes a Request and gives a Response, a Stream, or something to await that gives one of them. It is called in
the loop: one that gives a Response costs no task, and one that gives a future neither. What it raises becomes an
answer by `refuse`, which maps errors of the core and Refusal; other exceptions are logged and become a 500 first.
When the client goes, what is awaited is cancelled.

/health/live says that the event loop turns. /health/ready fails while the server stops, or when the broker takes
nothing any more; a shortage of memory or disk does not: consumers have to come, or it would never end. Both need no
login, and a connection beyond the budget may ask for them: without it one client that has taken all connections would
make supervisors believe that the server is dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from leveret.clock import Clock
from leveret.core.errors import LeveretError
from leveret.observability.logs import LimitedEvent, Log
from leveret.protocols.http.connection import HttpConnection
from leveret.protocols.http.limits import Budget, HttpLimits
from leveret.protocols.http.problem import problem
from leveret.protocols.http.request import Refusal, Request
from leveret.protocols.http.response import Answered, Heads, Response, json_response
from leveret.protocols.http.router import Router
from leveret.protocols.net.admission import ConnectionBudget, Slot
from leveret.protocols.net.listener import SocketServer
from leveret.runtime.runtime import Runtime
from leveret.security.tls import ServerTls

SWEEP_S = 1.0

Handler = Callable[[Request], Answered]
Refuse = Callable[[LeveretError], Response]
LOG = Log("http")
DEADLINE_S = 3.0
FULL = "the server has no connection left: try again, or raise connections_max"
HEALTH_PREFIX = b"/health/"
NO_STORE = (("Cache-Control", "no-store"),)


class HttpServer(SocketServer[HttpConnection]):
    """Listeners of one handler, and the connections that they accepted."""

    def __init__(
        self,
        handler: Handler,
        limits: HttpLimits,
        admission: ConnectionBudget,
        clock: Clock,
        refuse: Refuse = problem,
        is_health: Callable[[Request], bool] = lambda request: False,
        budget: Budget | None = None,
        admits: bool = False,
    ) -> None:
        """Serve in the running loop; nothing is listened on yet.

        `is_health` tells which requests are answered on connections beyond the budget. Servers may share a `budget` of
        memory. `admits`: the handler can be asked whether a body is wanted before it is there (Admitted).
        """
        super().__init__(
            admission,
            LOG,
            self._connection,
            lambda accepted: DEADLINE_S if accepted.slot.reserved else limits.handshake_s,
        )
        self.call_soon = self._loop.call_soon
        self.handler = handler
        self.limits = limits
        self.refuse = refuse
        self.is_health = is_health
        self.budget = Budget() if budget is None else budget
        self.admits = admits
        self.now_s = self._loop.time()
        self.tells_requests = LOG.is_debugging
        admission.close_idle = self._close_idle
        self.heads = Heads(clock)
        self._sweep = self._loop.call_later(SWEEP_S, self._tick)

    def __len__(self) -> int:
        return len(self.clients)

    # Coming and going

    def _connection(self, host: str, port: int, slot: Slot, tls: ServerTls | None) -> HttpConnection:
        return (ReservedConnection if slot.reserved else HttpConnection)(self, host, port, slot, tls)

    def _close_idle(self) -> bool:
        """Close the connection that was idle longest, because no file descriptor is left."""
        idle = [each for each in self.clients if each.is_idle and each.slot.is_held]
        oldest = min(idle, key=lambda each: each.since_s, default=None)
        if oldest is None:
            return False
        oldest.slot.leave()
        self.close(oldest)
        return True

    async def drain(self, timeout_s: float) -> int:
        """Let requests at hand be answered; give how many connections did not end in time, and close those."""
        self.draining = True
        for connection in list(self.clients):
            connection.drain()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        left = list(self.clients)
        for connection in left:
            self.close(connection)
        await self._idle.wait()
        self._sweep.cancel()
        return len(left)

    # Once a second

    def _tick(self) -> None:
        self._sweep = self._loop.call_later(SWEEP_S, self._tick)
        self.now_s = self._loop.time()
        self.tells_requests = LOG.is_debugging
        LimitedEvent.flush_all()
        self.heads.clear()
        for connection in list(self.clients):
            connection.check(self.now_s)


class ReservedConnection(HttpConnection):
    """A client that was let in for a health check."""

    def __init__(self, server: HttpServer, host: str, port: int, slot: Slot, tls: ServerTls | None = None) -> None:
        super().__init__(server, host, port, slot, tls)
        self._until_s = server.now_s + DEADLINE_S

    def _handle(self, request: Request, keep_alive: bool) -> None:
        """Answer a health check, refuse everything else; either is the last answer."""
        if self._server.is_health(request):
            super()._handle(request, False)
        else:
            refused = self._failed(Refusal(503, FULL, (("Retry-After", "1"),)), request)
            self._answer(request, False, refused, self._output.write)

    def check(self, now_s: float) -> None:
        if now_s > self._until_s:
            self._server.close(self)
        else:
            super().check(now_s)


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


def is_health_check(request: Request) -> bool:
    """Whether a path is one of these."""
    return request.raw_path.startswith(HEALTH_PREFIX)
