"""Logins of browsers on all nodes: a user who logs out of one has logged out of all.

Nodes within reach end the session at once. For the others a logout is a definition: a node that was not reached, or did
not run, applies it with the definitions that it has missed, before it serves clients again.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from leveret.cluster.forwarding.handler import Api
from leveret.core.definition_log import Kind
from leveret.core.errors import InvalidArgument, LeveretError
from leveret.observability.logs import Log
from leveret.protocols.http.problem import problem
from leveret.protocols.http.request import HttpPeer, Request
from leveret.protocols.http.response import Response
from leveret.protocols.http.sessions import AGE_MS_MAX, ENDED_PER_USER_MAX

if TYPE_CHECKING:
    from leveret.cluster.catalog.changes import DefinitionChange
    from leveret.cluster.node import Node
    from leveret.core.broker import Broker
    from leveret.protocols.console.handler import ConsoleLogin
    from leveret.protocols.http.sessions import BrowserSession, Sessions

EDGE = "logins"
NO_PEER = HttpPeer("", 0)
NOTED_S = 2.0  # for a logout to be noted, before it is answered
RETRY_S = 5.0

LOG = Log("node")


class Logouts:
    """The sessions that were logged out, on whatever node."""

    def __init__(self, node: Node, sessions: Sessions, login: ConsoleLogin) -> None:
        """Announce sessions that end here to the other nodes, and end those that end there or have ended."""
        self._node = node
        self._sessions = sessions
        self._noting: set[asyncio.Task[None]] = set()
        replica = node.catalog.replica
        with replica.lock:
            for each in replica.broker.catalog.of(Kind.LOGOUT):
                sessions.forget(each["user"], each["name"])
        replica.followers.append(self._follow)
        node.edges[EDGE] = Api(self._end, problem)
        login.cluster, login.announce = node.cluster, self.announce

    async def close(self) -> None:
        for task in self._noting:
            task.cancel()
        await asyncio.gather(*self._noting, return_exceptions=True)

    async def announce(self, session: BrowserSession) -> None:
        """End a session on all nodes: it has ended here."""
        request = Request("POST", b"/", {}, NO_PEER)
        request.body = json.dumps({"user": session.user, "id": session.id}).encode()
        await self._node.forwarder.everywhere(EDGE, request)
        task = asyncio.create_task(self._note(session))
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)
        await asyncio.wait([task], timeout=NOTED_S)

    async def _note(self, session: BrowserSession) -> None:
        """Define the logout; try until that succeeds."""
        while True:
            try:
                await self._node.decide(lambda core: note(core, session))
                return
            except LeveretError as error:
                LOG.warning("logout not noted", user=session.user, reason=error)
            await asyncio.sleep(RETRY_S)

    def _end(self, request: Request) -> Response:
        session = json.loads(request.body)
        if not isinstance(session, dict) or not {"user", "id"} <= session.keys():
            raise InvalidArgument("no session is named")
        self._sessions.forget(str(session["user"]), str(session["id"]))
        return Response(204)

    def _follow(self, change: DefinitionChange) -> None:
        if change.kind == Kind.LOGOUT and not change.removed:
            self._sessions.forget(change.definition["user"], change.definition["name"])


def note(core: Broker, session: BrowserSession) -> None:
    """Define that a session has ended; delete logouts whose cookies have expired, and the oldest of too many."""
    kept: list[dict[str, Any]] = []
    for each in list(core.catalog.of(Kind.LOGOUT)):
        if each["until_ms"] <= core.now_ms:
            core.undefine(Kind.LOGOUT, each)
        elif each["user"] == session.user:
            kept.append(each)
    for each in sorted(kept, key=lambda row: row["until_ms"])[: len(kept) + 1 - ENDED_PER_USER_MAX]:
        core.undefine(Kind.LOGOUT, each)
    logout = {"user": session.user, "name": session.id, "until_ms": session.began_ms + AGE_MS_MAX}
    core.define(Kind.LOGOUT, logout)
