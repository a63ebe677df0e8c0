"""An operation of the API: the one row from which it is routed, checked, audited and described."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, NamedTuple

from leveret.core.errors import AccessRefused, ResourceLocked
from leveret.embedded.broker import VHOST
from leveret.embedded.queue import Queue
from leveret.http.desk import Desk
from leveret.http.request import Request
from leveret.http.response import Response, Stream
from leveret.http.rest.fields import Record
from leveret.security.access import Access
from leveret.security.identity import Identity
from leveret.security.permissions import Access as Verb
from leveret.security.permissions import Resource
from leveret.telemetry.audit import Audit

Answer = Response | Stream
Run = Callable[["Call"], Answer | Awaitable[Answer]]


class Need(NamedTuple):
    """An access to the queue or exchange that the path names."""

    access: Verb
    kind: Literal["queue", "exchange"] = "queue"


class Operation(NamedTuple):
    """A method of a path. `answers` have for each status a sentence, and the schema of the body if there is one."""

    method: str
    path: str
    summary: str
    run: Run
    need: Need | None
    answers: Mapping[int, tuple[str, Mapping[str, Any] | None]]
    body: Record | None = None
    query: Record | None = None
    headers: Mapping[str, str] = {}
    audited: bool = False
    tag: str | None = None
    """Who may, of those who have tags; for what concerns the whole server."""


class Call:
    """One request as operations see it."""

    __slots__ = ("access", "audit", "body", "desk", "identity", "query", "request")

    def __init__(self, desk: Desk, access: Access, audit: Audit, request: Request, identity: Identity) -> None:
        """A request whose body and query are still to be read."""
        self.desk = desk
        self.access = access
        self.audit = audit
        self.request = request
        self.identity = identity
        self.body: dict[str, Any] = {}
        self.query: dict[str, Any] = {}

    @property
    def queue(self) -> Queue:
        """The queue that the path names."""
        queue = self.desk.queue(self.request.parameters["queue"])
        if queue.anyway.owner is not None:
            raise ResourceLocked(f"queue '{queue.name}' belongs to one connection of AMQP: use another one")
        return queue

    @property
    def exchange(self) -> str:
        """The exchange that the path names."""
        return self.request.parameters["exchange"]

    def check(self, access: Verb, kind: Literal["queue", "exchange"], name: str) -> None:
        """Refuse an access that the caller does not have: scopes and permissions both."""
        self.identity.check(self.access.permissions, VHOST, Resource(kind, name), access)

    def allows(self, access: Verb, kind: Literal["queue", "exchange"], name: str) -> bool:
        """The same as a question."""
        try:
            self.check(access, kind, name)
        except AccessRefused:
            return False
        return True
