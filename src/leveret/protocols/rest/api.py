"""The API as a table of routes, made of the operations of each resource."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import cache, partial
from importlib.resources import files

from leveret.ingest.sinks import Sinks
from leveret.observability.audit import ENTRIES_MAX, KINDS, Audit, kind_of
from leveret.protocols.http.async_broker import AsyncBroker
from leveret.protocols.http.bulk import asked_for, came_of
from leveret.protocols.http.cluster import InCluster, Parts
from leveret.protocols.http.fields import OBJECT, Choice, RecordField, Whole, json_body
from leveret.protocols.http.idempotency import KEY_HEADER, Idempotency
from leveret.protocols.http.problem import detail_of
from leveret.protocols.http.request import Refusal, Request
from leveret.protocols.http.response import Answer, Answered, Response, json_response, page_headers
from leveret.protocols.http.router import Endpoint
from leveret.protocols.rest import exchanges, groups, leases, messages, queues, reservations, sinks, streams
from leveret.protocols.rest.openapi import document
from leveret.protocols.rest.operation import RestCall, RestOperation, Scans, routes
from leveret.security.access import Access
from leveret.security.authorisation import Decisions, admit

REFUSED = 400
ACTS = 100  # in an answer, unless the query has a limit
PAGE = "docs.html"
SCRIPT = "docs.js"
STYLE = "docs.css"
OPEN_PATHS = frozenset((b"/openapi.json", b"/docs", b"/docs/docs.js", b"/docs/docs.css"))
"""What needs no login: it says nothing about the server but what is public anyway."""


OWN: list[RestOperation] = []
route = routes(OWN)


def audit_of_all(call: RestCall, parts: Parts) -> Answer:
    """The last administrative acts on all nodes, each with its node."""
    rows = [{**row, "node": name} for name, value in sorted(parts.values.items()) for row in value["acts"]]
    return json_response({"acts": sorted(rows, key=lambda row: -row["at_ms"])[: call.query.get("limit", ACTS)]})


@route(
    "GET /audit",
    "audit.list",
    {200: ("Acts.", OBJECT)},
    query=RecordField(
        "How many, and which.",
        {"limit": Whole(f"Default: {ACTS}.", 1, ENTRIES_MAX), "kind": Choice("Default: every kind.", *KINDS)},
    ),
    cluster=InCluster(merge=audit_of_all),
)
def audit(call: RestCall) -> Answer:
    """List administrative acts, the newest first."""
    assert call.audit is not None, "an API for clients has one"
    return json_response({"acts": call.audit.recent(call.query.get("limit", ACTS), call.query.get("kind"))})


OPERATIONS: tuple[RestOperation, ...] = (
    *messages.OPERATIONS,
    *leases.OPERATIONS,
    *reservations.OPERATIONS,
    *queues.OPERATIONS,
    *exchanges.OPERATIONS,
    *streams.OPERATIONS,
    *groups.OPERATIONS,
    *sinks.OPERATIONS,
    *OWN,
)


class RestApi:
    """Every operation on the broker behind an asynchronous broker. Requests have their identity by then: see
    Auth.wrap.
    """

    def __init__(
        self,
        async_broker: AsyncBroker,
        access: Access,
        audit: Audit | None,
        sinks: Sinks | None,
        idempotency: Idempotency | None,
    ) -> None:
        """Use what the server has; without an audit another part notes what is done, and so with keys of requests."""
        self._async_broker = async_broker
        self._access = access
        self._audit = audit
        self._scans = Scans(async_broker)
        self._sinks = sinks
        self._idempotency = idempotency
        self._decisions = Decisions()

    def close(self) -> None:
        if self._sinks is not None:
            self._sinks.close()

    def routes(self) -> dict[tuple[str, str], Endpoint]:
        made: dict[tuple[str, str], Endpoint] = {
            (each.method, each.path): partial(self._run, each) for each in OPERATIONS
        }
        return {
            **made,
            ("GET", "/openapi.json"): lambda request: _described(),
            ("GET", "/docs"): partial(_asset, PAGE, "text/html; charset=utf-8"),
            ("GET", "/docs/docs.js"): partial(_asset, SCRIPT, "text/javascript; charset=utf-8"),
            ("GET", "/docs/docs.css"): partial(_asset, STYLE, "text/css; charset=utf-8"),
        }

    def _run(self, operation: RestOperation, request: Request) -> Answered:
        identity = request.identity
        if identity is None:
            raise Refusal(401, "no user is logged in: send credentials")
        call = RestCall(self._async_broker, self._access, self._audit, self._scans, self._sinks, request, identity)
        if operation.registered.audited and self._audit is not None:
            return self._audited(self._audit, operation, call)
        return self.perform(operation, call)

    def perform(self, operation: RestOperation, call: RestCall) -> Answered:
        """Do what is asked for, if the caller may; what has a key that no queue remembers, once."""
        call.read_path()
        self.allow(operation, call)
        if self._idempotency is None or operation.method == "GET" or operation.keyed:
            return self.do(operation, call)
        if KEY_HEADER not in call.request.headers:
            return self.do(operation, call)
        return self._idempotency.run(call.request, partial(self.do, operation, call))

    def do(self, operation: RestOperation, call: RestCall) -> Answered:
        self.read(operation, call)
        return operation.run(call)

    def allow(self, operation: RestOperation, call: RestCall) -> None:
        names = call.names
        asked = (call.identity, operation.registered.name, call.vhost, *names.values())
        if self._decisions.has(asked, self._access.generation):
            return
        if operation.registered.rule.roles <= names.keys():
            call.authorise(operation.name, names)
        else:  # a name is in the body: the operation itself authorises
            admit(self._access.permissions, call.identity, operation.registered.rule, call.vhost)
        self._decisions.add(asked)

    def read(self, operation: RestOperation, call: RestCall) -> None:
        """Read the body and the query; refuse those that do not fit the operation."""
        request = call.request
        if operation.body is not None:
            call.body = operation.body.read("the body", json_body(request))
        query = {name: value for name, value in request.query.items() if name != "vhost"} if request.raw_query else {}
        if operation.query is not None:
            call.query = operation.query.parse_all(query)
        elif query:
            raise Refusal(400, f"{request.method} {request.path} takes no query but vhost: leave it out")

    async def _audited(self, audit: Audit, operation: RestOperation, call: RestCall) -> Answer:
        """Do something that is noted, whether it is allowed or not."""
        facts: dict[str, object] = {"path": call.request.path, "vhost": call.vhost, "peer": call.request.peer.host}
        if operation.bulk:
            facts |= asked_for(call.request)
        act = f"{operation.method} {operation.path}"
        with audit.noting(call.identity.user, act, act, kind_of(call.identity.tags), **facts) as noted:
            answer = self.perform(operation, call)
            if isinstance(answer, Awaitable):
                answer = await answer
            if isinstance(answer, Response) and answer.status >= REFUSED:
                noted.refuse(answer.status, detail_of(answer))
            elif isinstance(answer, Response) and operation.bulk:
                noted.facts = came_of(answer)
            return answer


@cache
def _described() -> Response:
    return json_response(document(OPERATIONS))


def _asset(name: str, content_type: str, request: Request) -> Response:
    """A file of the page; it asks no other server for anything."""
    body = (files("leveret.protocols.rest") / "page" / name).read_bytes()
    return Response(200, body, content_type, page_headers())
