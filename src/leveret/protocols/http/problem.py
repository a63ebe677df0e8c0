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

_KINDS: dict[int, tuple[type[errors.LeveretError], ...]] = {
    400: (errors.InvalidArgument,),
    403: (errors.AccessRefused,),
    404: (errors.NotFound, errors.VhostNotFound, errors.QueueNotFound, errors.ExchangeNotFound, errors.MessageNotFound),
    409: (errors.PreconditionFailed, errors.StaleGeneration, errors.ResourceLocked, errors.InvalidReceipt),
    413: (errors.MessageTooLarge,),
    422: (errors.NotSupported, errors.KeyReused),
    429: (errors.QueueFull, errors.TooMany),
    500: (
        errors.LeveretError,
        errors.JournalError,
        errors.DataLocked,
        errors.UnknownFormat,
        errors.DamagedJournal,
        errors.WrongKey,
    ),
    502: (errors.Unreachable,),
    503: (errors.BrokerClosed, errors.JournalFailed, errors.Fenced, errors.StoreUnreachable, errors.BlobStoreFailed),
    507: (errors.DiskFull,),
}
STATUSES = {kind: status for status, kinds in _KINDS.items() for kind in kinds}
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
