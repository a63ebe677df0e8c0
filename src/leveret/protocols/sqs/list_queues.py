"""ListQueues, GetQueueUrl and ListDeadLetterSourceQueues."""

from base64 import b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Iterator
from itertools import islice
from typing import Any

from leveret.protocols.http.response import Response
from leveret.protocols.sqs.authorization import may_see
from leveret.protocols.sqs.call import SqsCall
from leveret.protocols.sqs.errors import SqsError, invalid
from leveret.protocols.sqs.parameters import number, required
from leveret.protocols.sqs.queues import SqsQueue

RESULTS_MAX = 1_000


def list_queues(call: SqsCall) -> Response:
    """The URLs of queues, by name."""
    prefix = call.parameters.get("QueueNamePrefix") or ""
    with call.account.runtime:
        found = call.account.queues.after(_last(call), prefix)
        return call.answer(_page(call, (queue for queue in found if may_see(call, queue)), "QueueUrls"))


def list_dead_letter_source_queues(call: SqsCall, queue: SqsQueue) -> Response:
    """The queues whose dead letters go to a queue."""
    with call.account.runtime:
        last, sources = _last(call), call.account.queues.sources(queue.name)
        found = (each for each in sources if each.name > last and may_see(call, each))
        return call.answer({"queueUrls": [], **_page(call, found, "queueUrls")})


def get_queue_url(call: SqsCall) -> Response:
    """The URL of a queue."""
    name: str = required(call.parameters, "QueueName")
    owner = call.parameters.get("QueueOwnerAWSAccountId")
    queue = call.account.queues.get(name)
    if owner not in (None, "", call.account.settings.account) or not may_see(call, queue):
        raise SqsError("QueueDoesNotExist")
    return call.answer({"QueueUrl": call.url(queue)})


def _last(call: SqsCall) -> str:
    """The last name of the page before; "" for the first page."""
    size, token = number(call.parameters, "MaxResults", RESULTS_MAX, least=1), call.parameters.get("NextToken")
    if not token:
        return ""
    if size is None:
        raise invalid("MaxResults is a mandatory parameter when you provide a value for NextToken.")
    return _read_token(token)


def _page(call: SqsCall, found: Iterator[SqsQueue], key: str) -> dict[str, Any]:
    """As many as one answer has; where the next one begins is said to those who asked for pages."""
    size = number(call.parameters, "MaxResults", RESULTS_MAX, least=1)
    page = list(islice(found, size or RESULTS_MAX))
    result: dict[str, Any] = {key: [call.url(queue) for queue in page]} if page else {}
    if size is not None and next(found, None) is not None:
        result["NextToken"] = urlsafe_b64encode(page[-1].name.encode()).decode()
    return result


def _read_token(token: str) -> str:
    """The last name of the page before."""
    try:
        return b64decode(token, altchars=b"-_", validate=True).decode()
    except (Base64Error, ValueError):
        raise invalid("Invalid or expired next token.") from None
