"""Refusals as RFC 9457 has them: application/problem+json, by one table from the errors of the core."""

import json
import secrets

from leveret.core import errors
from leveret.observability.logs import Log
from leveret.protocols.http.request import Refusal, Request
from leveret.protocols.http.response import REASONS, Headers, Response, json_response

LOG = Log("http")
PROBLEM = "application/problem+json"
RETRY_S = "1"

STATUSES: dict[type[errors.LeveretError], int] = {
    errors.LeveretError: 500,
    errors.NotFound: 404,
    errors.VhostNotFound: 404,
    errors.QueueNotFound: 404,
    errors.ExchangeNotFound: 404,
    errors.MessageNotFound: 404,
    errors.PreconditionFailed: 409,
    errors.InvalidArgument: 400,
    errors.AccessRefused: 403,
    errors.StaleGeneration: 409,
    errors.ResourceLocked: 409,
    errors.InvalidReceipt: 409,
    errors.NotSupported: 422,
    errors.QueueFull: 429,
    errors.MessageTooLarge: 413,
    errors.TooMany: 429,
    errors.Unreachable: 502,
    errors.BrokerClosed: 503,
    errors.JournalError: 500,
    errors.JournalFailed: 503,
    errors.Fenced: 503,
    errors.StoreUnreachable: 503,
    errors.DiskFull: 507,
    errors.BlobStoreFailed: 503,
    errors.DataLocked: 500,
    errors.UnknownFormat: 500,
    errors.DamagedJournal: 500,
    errors.WrongKey: 500,
}
RETRIED = frozenset((429, 503))


def status_of(error: errors.LeveretError) -> int:
    """The status of a refusal; a subclass from elsewhere means what its nearest known base means."""
    if isinstance(error, Refusal):
        return error.status
    return next(STATUSES[base] for base in type(error).__mro__ if base in STATUSES)


def title_of(error: errors.LeveretError) -> str:
    """What kind of refusal it is, the same for all of the kind."""
    if isinstance(error, Refusal):
        return REASONS.get(error.status, "Refused")
    kind = next(base for base in type(error).__mro__ if base in STATUSES)
    words = "".join(f" {letter}" if letter.isupper() else letter for letter in kind.__name__).strip()
    return words.capitalize()


def detail_of(answer: Response) -> str:
    """The sentence of a refusal that is an answer already."""
    try:
        return str(json.loads(answer.body)["detail"])
    except (ValueError, KeyError, TypeError):
        return f"refused with {answer.status}"


def problem(error: errors.LeveretError) -> Response:
    """The answer to a request that is refused."""
    status = status_of(error)
    headers: Headers = error.headers if isinstance(error, Refusal) else ()
    if status in RETRIED and not any(name == "Retry-After" for name, _ in headers):
        headers = (*headers, ("Retry-After", RETRY_S))
    body = {"type": "about:blank", "title": title_of(error), "status": status, "detail": str(error)}
    return json_response(body, status, headers, PROBLEM)


def internal(error: Exception, request: Request | None, peer: str) -> Refusal:
    """Log an error of ours; a client is told where to look for it."""
    facts: dict[str, object] = {"request": secrets.token_hex(8)} if request is None else request.facts()
    what = {} if request is None else {"method": request.method, "path": request.shown_path}
    LOG.error("request failed", error, peer=peer, **what, **facts)
    return Refusal(500, f"the server failed; its log says how, under request {facts['request']}")
