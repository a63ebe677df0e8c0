"""Refusals as RabbitMQ's management API has them: {"error": a word, "reason": a sentence}. Those of policies and limits
are `Validation failed`, an empty line, and what is wrong.
"""

import json
from collections.abc import Mapping
from typing import Any

from leveret.core import errors
from leveret.core.errors import InvalidArgument
from leveret.core.policy import APPLY_TO, Policy, recognised
from leveret.protocols.http.problem import STATUSES
from leveret.protocols.http.request import Refusal
from leveret.protocols.http.response import REASONS, Headers, Response, json_response

NO_CACHE = (("Cache-Control", "no-cache"),)

_WORDS = {
    401: "not_authorised",
    404: "not_found",
    500: "internal_server_error",
    503: "service_unavailable",
    507: "insufficient_storage",
}
_OTHERWISE: dict[type[errors.LeveretError], int] = {errors.AccessRefused: 401, errors.Unreachable: 503}
WORDS: dict[type[errors.LeveretError], tuple[int, str]] = {
    kind: (status, _WORDS[status]) if status in _WORDS else (400, "bad_request")
    for kind, status in {**STATUSES, **_OTHERWISE}.items()
}
"""As REST has it, but for what RabbitMQ knows as a bad request."""


class Missing(errors.NotFound):
    """There is no such object; RabbitMQ says no more than that."""


class NotAuthorised(errors.AccessRefused):
    """The user has not the tag, or may not see the virtual host."""


class BadRequest(errors.InvalidArgument):
    """A request that cannot be understood, with RabbitMQ's word for why."""

    def __init__(self, reason: str, error: str = "bad_request") -> None:
        super().__init__(reason)
        self.error = error


def refused(error: errors.LeveretError) -> Response:
    """The answer to a request that is refused."""
    if isinstance(error, Refusal):
        return _refused_by_http(error)
    status, word = next(WORDS[base] for base in type(error).__mro__ if base in WORDS)
    reason = str(error)
    if isinstance(error, Missing):
        word, reason = "Object Not Found", "Not Found"
    if isinstance(error, BadRequest):
        word = error.error
    return answer({"error": word, "reason": reason}, status)


def reason_of(answer: Response) -> str:
    """The sentence of a refusal that is an answer already."""
    try:
        return str(json.loads(answer.body)["reason"])
    except (ValueError, KeyError, TypeError):
        return f"refused with {answer.status}"


def _refused_by_http(error: Refusal) -> Response:
    """The same for what HTTP itself refuses."""
    if error.status == 405:
        return Response(405, headers=(*NO_CACHE, *error.headers))
    if error.status == 404:
        return refused(Missing())
    login = {"error": "not_authorized", "reason": "Login failed"}
    word = REASONS.get(error.status, "refused").lower().replace(" ", "_")
    body = login if error.status == 401 else {"error": word, "reason": str(error)}
    return answer(body, error.status, error.headers)


def answer(value: object, status: int = 200, headers: Headers = ()) -> Response:
    """An answer in JSON that is not cached."""
    return json_response(value, status, (*NO_CACHE, *headers))


def done(status: int = 204, headers: Headers = ()) -> Response:
    """An answer without a body: made (201) or done (204)."""
    return Response(status, headers=(*NO_CACHE, *headers))


NOUNS = {
    "alternate-exchange": "alternate exchange name",
    "dead-letter-exchange": "dead letter exchange name",
    "dead-letter-routing-key": "dead letter routing key",
    "message-ttl": "message TTL",
    "expires": "queue expiry",
    "max-length": "maximum length",
    "max-length-bytes": "maximum length in bytes",
    "queue-mode": "queue-mode value",
    "queue-version": "queue-version value",
    "overflow": "overflow value",
    "delivery-limit": "delivery limit",
    "max-age": "max age",
    "queue-leader-locator": "queue leader locator value",
    "stream-max-segment-size-bytes": "segment size",
    "consumer-timeout": "consumer timeout",
}
"""What RabbitMQ calls the value of a setting that it refuses."""
CHOICES = "'queues', 'classic_queues', 'quorum_queues', 'streams', 'exchanges', or 'all'"


def invalid(text: str) -> BadRequest:
    """The refusal of a policy, a parameter or the limit of a virtual host."""
    return BadRequest(f"Validation failed\n\n{text}\n")


def checked_policy(
    name: str, pattern: str, priority: int, apply_to: object, definition: object, operator: bool
) -> Policy:
    """The policy that a client describes."""
    if not isinstance(definition, dict):
        raise invalid(f"definition must be a dictionary: {term(definition)}")
    if not definition:
        raise invalid("no policy provided")
    if not isinstance(apply_to, str) or apply_to not in APPLY_TO:
        told = apply_to if isinstance(apply_to, str) else term(apply_to)
        raise invalid(f"apply-to '{told}' unrecognised; should be one of: {CHOICES}")
    try:
        return Policy(name, pattern, priority, apply_to, definition, operator)
    except InvalidArgument as error:
        raise invalid(_wrong(definition, operator) or str(error)) from None


def _wrong(definition: Mapping[str, Any], operator: bool) -> str | None:
    """The settings that do not exist, or the first value that is refused."""
    unknown = {key: value for key, value in definition.items() if not recognised(key, operator)}
    if unknown:
        return f"{pairs(unknown)} are not recognised policy settings"
    for key, value in definition.items():
        try:
            Policy("one", "", definition={key: value}, operator=operator)
        except InvalidArgument:
            return f"{term(value)} is not a valid {NOUNS.get(key, key)}"
    return None


def pairs(values: Mapping[str, Any]) -> str:
    """Named values as Erlang writes a list of pairs."""
    return f"[{','.join(f'{{{term(key)},{term(value)}}}' for key, value in values.items())}]"


def term(value: object) -> str:
    """A value of JSON as Erlang writes it."""
    if isinstance(value, str):
        return f"<<{json.dumps(value, ensure_ascii=False)}>>"
    if isinstance(value, list):
        return f"[{','.join(map(term, value))}]"
    if isinstance(value, dict):
        return f"#{{{','.join(f'{term(key)} => {term(each)}' for key, each in value.items())}}}"
    return json.dumps(value)
