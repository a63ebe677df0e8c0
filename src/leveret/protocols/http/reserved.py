"""A connection beyond the budget of HTTP: it may ask for the health of the server, once and soon.

Without it one client that has taken all connections would make supervisors believe that the server is dead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.protocols.http.connection import HttpConnection
from leveret.protocols.http.request import Refusal, Request
from leveret.protocols.net.admission import Slot
from leveret.security.server_tls import ServerTls

if TYPE_CHECKING:
    from leveret.protocols.http.server import HttpServer

DEADLINE_S = 3.0
FULL = "the server has no connection left: try again, or raise connections_max"


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
        """Look whether the client takes too long."""
        if now_s > self._until_s:
            self._server.close(self)
        else:
            super().check(now_s)
