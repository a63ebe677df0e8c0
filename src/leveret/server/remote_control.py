"""The verbs of an operator by HTTP, for administrators: what the control socket is to those on the same machine.

POST /operator/users.tags {"name": "ada", "tags": ["monitoring"]}
200 {"result": {"name": "ada", ...}}        once the change is durable; refusals are those of the REST API
"""

from typing import Any

from leveret.core.errors import InvalidArgument, LeveretError
from leveret.observability.audit import Audit
from leveret.operations.registry import OPERATIONS
from leveret.protocols.http.request import Refusal, Request
from leveret.protocols.http.response import Response, json_response
from leveret.protocols.http.router import Routes
from leveret.protocols.rest.fields import json_body
from leveret.security.authorisation import check_tag
from leveret.server.administration.context import VerbContext
from leveret.server.administration.verbs import VERBS
from leveret.server.control import QUESTIONS, REQUEST_BYTES_MAX, Run, perform, shown

PREFIX = "/operator/"
UNKNOWN = "unknown verb"


class RemoteControl:
    """Answers requests for verbs. Requests have their identity by then: see Auth.wrap."""

    def __init__(self, run: Run, context: VerbContext, audit: Audit) -> None:
        """Serve a site; what is changed or refused is noted in the audit log."""
        self._run = run
        self._context = context
        self._audit = audit

    def routes(self) -> Routes:
        """The table for a router."""
        return {("POST", PREFIX + "{verb}"): self._answer}

    async def _answer(self, request: Request) -> Response:
        """Do what a request says; the answer comes when it is durable."""
        identity, verb = request.identity, request.parameters["verb"]
        if identity is None:
            raise Refusal(401, "no user is logged in: send credentials")
        facts: dict[str, Any] = {"peer": request.peer.host}
        try:
            check_tag(identity, OPERATIONS["operator.run"].rule)
            arguments = arguments_of(request)
            facts |= shown(arguments)
            result = await perform(self._run, self._context, verb, arguments)
        except LeveretError as error:
            operation = verb if verb in VERBS else UNKNOWN
            self._audit.refused(identity.user, verb, str(error), operation, type(error).__name__, **facts)
            raise
        if not verb.endswith(QUESTIONS):
            self._audit.note(identity.user, verb, **facts)
        return json_response({"result": result})


def arguments_of(request: Request) -> dict[str, Any]:
    """What comes with a verb; as little as the control socket takes."""
    if len(request.body) > REQUEST_BYTES_MAX:
        raise InvalidArgument(f"the request is over {REQUEST_BYTES_MAX} bytes: send it in parts")
    found = json_body(request)
    if not isinstance(found, dict):
        raise InvalidArgument("the body is a JSON object with the arguments of the verb")
    return found
