"""The API as a table of routes, made of the operations of each resource."""

from __future__ import annotations

from functools import cache, partial
from importlib.resources import files

from leveret.observability.audit import ENTRIES_MAX, KINDS
from leveret.protocols.http.cluster import InCluster, Parts
from leveret.protocols.http.fields import OBJECT, Choice, RecordField, Whole
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Answer, Response, json_response, page_headers
from leveret.protocols.http.router import Endpoint
from leveret.protocols.rest import exchanges, groups, leases, messages, queues, reservations, sinks, streams
from leveret.protocols.rest.openapi import document
from leveret.protocols.rest.operation import OperationRunner, RestCall, RestOperation, routes

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


class RestApi(OperationRunner):
    """Every operation on the broker behind an asynchronous broker, and the page that describes them."""

    def routes(self) -> dict[tuple[str, str], Endpoint]:
        made: dict[tuple[str, str], Endpoint] = {
            (each.method, each.path): partial(self.run, each) for each in OPERATIONS
        }
        return {
            **made,
            ("GET", "/openapi.json"): lambda request: _described(),
            ("GET", "/docs"): partial(_asset, PAGE, "text/html; charset=utf-8"),
            ("GET", "/docs/docs.js"): partial(_asset, SCRIPT, "text/javascript; charset=utf-8"),
            ("GET", "/docs/docs.css"): partial(_asset, STYLE, "text/css; charset=utf-8"),
        }


@cache
def _described() -> Response:
    return json_response(document(OPERATIONS))


def _asset(name: str, content_type: str, request: Request) -> Response:
    """A file of the page; it asks no other server for anything."""
    body = (files("leveret.protocols.rest") / "page" / name).read_bytes()
    return Response(200, body, content_type, page_headers())
