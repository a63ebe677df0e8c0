"""Who changed what, on whatever node it was asked for: the audit logs of all nodes as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from leveret.cluster.forwarding.edges import Api
from leveret.observability.audit import ENTRIES_MAX
from leveret.protocols.http.problem import problem
from leveret.protocols.http.request import HttpPeer, Request
from leveret.protocols.http.response import Response, json_response

if TYPE_CHECKING:
    from leveret.cluster.node import Node
    from leveret.observability.audit import Audit, Kind

EDGE = "acts"
NO_PEER = HttpPeer("", 0)


class ClusterAudit:
    """The acts on all nodes."""

    def __init__(self, node: Node, audit: Audit) -> None:
        """Ask other nodes by a node, and tell them what is in its audit log."""
        self._node = node
        self._audit = audit
        node.edges[EDGE] = Api(self._answer, problem)

    def _answer(self, request: Request) -> Response:
        asked = orjson.loads(request.body)
        return json_response(self._audit.recent(min(asked["limit"], ENTRIES_MAX), asked["kind"]))

    async def recent(self, limit: int, kind: Kind | None = None) -> tuple[list[dict[str, Any]], list[str]]:
        """The last acts, the newest first, each with its node; and the nodes that have not answered."""
        request = Request("POST", b"/", {}, NO_PEER)
        request.body = orjson.dumps({"limit": limit, "kind": kind})
        told = await self._node.forwarder.told_everywhere(EDGE, request)
        rows = [{**row, "node": name} for name, body in sorted(told.items()) for row in orjson.loads(body)]
        lacking = sorted({self._node.name, *self._node.present} - told.keys())
        return sorted(rows, key=lambda row: -row["at_ms"])[:limit], lacking
