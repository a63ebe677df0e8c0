"""Logins of browsers on all nodes: whoever logs out of one has logged out of those that can be reached."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from leveret.core.errors import InvalidArgument
from leveret.http.problem import problem
from leveret.http.request import Peer, Request
from leveret.http.response import Response
from leveret.node.web.edges import Edge

if TYPE_CHECKING:
    from leveret.http.console.login import Login
    from leveret.http.sessions import Session, Sessions
    from leveret.node.node import Node

EDGE = "logins"
NOBODY = Peer("", 0)


def share(node: Node, sessions: Sessions, login: Login) -> None:
    """Tell other nodes of sessions that end here, and hear of those that end there."""

    def forget(request: Request) -> Response:
        told = json.loads(request.body)
        if not isinstance(told, dict) or not {"user", "id"} <= told.keys():
            raise InvalidArgument("no session is named")
        sessions.forget(str(told["user"]), str(told["id"]))
        return Response(204)

    async def tell(session: Session) -> None:
        request = Request("POST", b"/", {}, NOBODY)
        request.body = json.dumps({"user": session.user, "id": session.id}).encode()
        await node.courier.everywhere(EDGE, request)

    node.edges[EDGE] = Edge(forget, problem)
    login.tell = tell
