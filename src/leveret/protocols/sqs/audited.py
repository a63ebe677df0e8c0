"""The actions of SQS that change something, and what the audit log says of them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from leveret.core.errors import LeveretError
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Response
from leveret.protocols.sqs.errors import sqs_error
from leveret.protocols.sqs.queues import name_of

if TYPE_CHECKING:
    from leveret.observability.audit import Audit
    from leveret.protocols.sqs.call import Answer, SqsCall

REFUSED = 400
ANONYMOUS = "(anonymous)"  # signatures are not checked
UNSIGNED = "(unsigned)"
_KEY = re.compile(rb"Credential=([\w-]{1,128})(?:/|%2F)", re.ASCII | re.IGNORECASE)

CHANGES: dict[str, tuple[str, ...]] = {
    "AddPermission": ("Label", "AWSAccountIds", "Actions"),
    "CancelMessageMoveTask": (),
    "CreateQueue": ("Attributes",),
    "DeleteQueue": (),
    "PurgeQueue": (),
    "RemovePermission": ("Label",),
    "SetQueueAttributes": ("Attributes",),
    "StartMessageMoveTask": ("SourceArn", "DestinationArn", "MaxNumberOfMessagesPerSecond"),
    "TagQueue": ("Tags",),
    "UntagQueue": ("TagKeys",),
}
"""The parameters that are noted besides the queue."""


def audited(audit: Audit, call: SqsCall, perform: Callable[[], Answer]) -> Answer:
    """Perform an action that changes something, and note what came of it."""
    facts = facts_of(call)
    if call.action == "CreateQueue" and call.account.queues.find(str(facts["queue"])) is not None:
        return perform()  # it is there already, and so nothing changes
    try:
        answer = perform()
    except LeveretError as error:
        _refused(audit, call, facts, error)
        raise
    if isinstance(answer, Awaitable):
        return _later(audit, call, facts, answer)
    _answered(audit, call, facts, answer)
    return answer


async def _later(audit: Audit, call: SqsCall, facts: dict[str, object], answer: Awaitable[Response]) -> Response:
    try:
        response = await answer
    except LeveretError as error:
        _refused(audit, call, facts, error)
        raise
    _answered(audit, call, facts, response)
    return response


def _answered(audit: Audit, call: SqsCall, facts: dict[str, object], response: Response) -> None:
    """Note an action; another node may have refused it."""
    if response.status >= REFUSED:
        reason = f"refused with {response.status}"
        audit.refused(_caller(call), call.action, reason, f"SQS {call.action}", str(response.status), **facts)
    else:
        audit.changed(_caller(call), call.action, **facts)


def _refused(audit: Audit, call: SqsCall, facts: dict[str, object], error: LeveretError) -> None:
    kind = sqs_error(error).kind
    audit.refused(_caller(call), call.action, str(error), f"SQS {call.action}", kind, **facts)


def _caller(call: SqsCall) -> str:
    return ANONYMOUS if call.caller.user is None else call.caller.user


def facts_of(call: SqsCall) -> dict[str, object]:
    """What an action is about."""
    given = call.parameters
    facts: dict[str, object] = {"peer": call.caller.host, "vhost": call.account.settings.vhost}
    if "QueueName" in given:
        facts["queue"] = str(given["QueueName"])
    elif "QueueUrl" in given:
        facts["queue"] = name_of(str(given["QueueUrl"]))
    return facts | {name: given[name] for name in CHANGES[call.action] if name in given}


def claimed_key(request: Request) -> str:
    """The id of the access key that a request says it is signed with; it proves nothing."""
    found = _KEY.search(request.headers.get(b"authorization", b"")) or _KEY.search(request.raw_query)
    return UNSIGNED if found is None else found[1].decode("ascii")
