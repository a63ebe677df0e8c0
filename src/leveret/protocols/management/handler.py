"""The handler of everything under /api: finds the endpoint, asks who it is, checks the rule, notes who changes what."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from leveret.core.errors import LeveretError
from leveret.observability.audit import kind_of
from leveret.operations.registry import OPERATIONS
from leveret.protocols.http.auth import Auth
from leveret.protocols.http.bulk import asked_for, came_of
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Answer, Answered, Response
from leveret.protocols.http.router import Router
from leveret.protocols.http.server import Handler
from leveret.protocols.management.call import ManagementCall, check
from leveret.protocols.management.context import AdminContext
from leveret.protocols.management.refusals import reason_of, refused
from leveret.protocols.management.routes import ROUTES, Route

PREFIX = "/api"
PATHS = (b"/api", b"/api/")
"""Its path, and how others begin."""
REFUSED = 400
BULK = frozenset(
    (f"POST {PREFIX}/queues/{{vhost}}/{{queue}}/move", f"DELETE {PREFIX}/queues/{{vhost}}/{{queue}}/contents")
)


class Management:
    """A handler for the paths under /api."""

    def __init__(
        self,
        context: AdminContext,
        auth: Auth,
        limit: Callable[[Handler], Handler] = lambda handler: handler,
    ) -> None:
        """Serve a site; `limit` makes handlers for those who do not ask too often."""
        self._context = context
        self._auth = auth
        self._limit = limit
        endpoints = {(key[0], PREFIX + key[1]): self._endpoint(key, route) for key, route in ROUTES.items()}
        self._router = Router(endpoints, trailing_slash=True)

    def __call__(self, request: Request) -> Answered:
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

    def _endpoint(self, key: tuple[str, str], route: Route) -> Handler:
        """A function of the table as the router calls it."""
        operation = OPERATIONS[route.operation]

        def allowed(request: Request) -> Answered:
            call = ManagementCall(request, self._context)
            if operation.audited:
                return self._audited(f"{key[0]} {PREFIX}{key[1]}", route, call)
            check(call, route.operation)
            return self._context.dispatch(route, call)

        return self._auth.wrap(self._limit(allowed)) if operation.rule.login else allowed

    async def _audited(self, endpoint: str, route: Route, call: ManagementCall) -> Answer:
        """Do something that is noted, whether it is allowed or not."""
        request = call.request
        act = f"{request.method} {request.shown_path}"
        kind = kind_of(call.identity.tags)
        facts = {"peer": request.peer.host, **(asked_for(request) if endpoint in BULK else {})}
        with self._context.audit.noting(call.user, act, endpoint, kind, **facts) as noted:
            check(call, route.operation)
            answer = self._context.dispatch(route, call)
            if isinstance(answer, Awaitable):
                answer = await answer
            if isinstance(answer, Response) and answer.status >= REFUSED:
                noted.refuse(answer.status, reason_of(answer))
            elif isinstance(answer, Response) and endpoint in BULK:
                noted.facts = came_of(answer)
            return answer


def inside(context: AdminContext) -> Router:
    """A handler for requests of other nodes, which have authenticated the user and note what is done."""

    def endpoint(route: Route) -> Handler:
        def allowed(request: Request) -> Answered:
            call = ManagementCall(request, context)
            check(call, route.operation)
            return route.ask(call)

        return allowed

    endpoints = {(method, PREFIX + path): endpoint(route) for (method, path), route in ROUTES.items()}
    return Router(endpoints, trailing_slash=True)
