"""The handler of everything under /api: finds the endpoint, asks who it is, checks the rule, notes who changes what."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from leveret.core.errors import LeveretError
from leveret.http.auth import Auth
from leveret.http.management import gets, publishes
from leveret.http.management.call import Call
from leveret.http.management.refusals import refused
from leveret.http.management.routes import ROUTES, Endpoint, Table
from leveret.http.management.rules import Rule, check
from leveret.http.management.site import Site
from leveret.http.request import Request
from leveret.http.router import Answer, Router
from leveret.http.server import Handler

PREFIX = "/api"
READING = frozenset(("GET", "HEAD", "OPTIONS"))
MESSAGES: frozenset[Endpoint] = frozenset((publishes.publish, gets.get))


class Management:
    """A handler for the paths under /api."""

    def __init__(
        self,
        site: Site,
        auth: Auth,
        limit: Callable[[Handler], Handler] = lambda handler: handler,
        routes: Table = ROUTES,
    ) -> None:
        """Serve a site; `limit` makes handlers for those who do not ask too often."""
        self._site = site
        self._auth = auth
        self._limit = limit
        self._router = Router(
            {(method, PREFIX + path): self._endpoint(rule, ask) for (method, path), (rule, ask) in routes.items()}
        )

    def __call__(self, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request; what is refused has RabbitMQ's shape too."""
        try:
            answer = self._router(request)
        except LeveretError as error:
            return refused(error)
        return self._later(answer) if isinstance(answer, Awaitable) else answer

    async def _later(self, answer: Awaitable[Answer]) -> Answer:
        try:
            return await answer
        except LeveretError as error:
            return refused(error)

    def _endpoint(self, rule: Rule, ask: Endpoint) -> Handler:
        """A function of the table as the router calls it."""

        def allowed(request: Request) -> Answer | Awaitable[Answer]:
            call = Call(request, self._site)
            if request.method not in READING and ask not in MESSAGES:
                return self._audited(rule, ask, call)
            check(call, rule)
            return ask(call)

        return allowed if rule is Rule.OPEN else self._auth.wrap(self._limit(allowed))

    async def _audited(self, rule: Rule, ask: Endpoint, call: Call) -> Answer:
        """Do something that is noted, whether it is allowed or not."""
        request = call.request
        act = f"{request.method} {request.raw_path.decode('latin-1')}"
        with self._site.audit.noting(call.user, act, peer=request.peer.host):
            check(call, rule)
            answer = ask(call)
            return await answer if isinstance(answer, Awaitable) else answer


def inside(site: Site, routes: Table) -> Router:
    """A handler for requests of other nodes: those have asked who it is, and note what is done."""

    def endpoint(rule: Rule, ask: Endpoint) -> Handler:
        def allowed(request: Request) -> Answer | Awaitable[Answer]:
            call = Call(request, site)
            check(call, rule)
            return ask(call)

        return allowed

    return Router({(method, PREFIX + path): endpoint(*row) for (method, path), row in routes.items()})


def owns(request: Request) -> bool:
    """Whether a path is one of this API."""
    return request.raw_path == b"/api" or request.raw_path.startswith(b"/api/")
