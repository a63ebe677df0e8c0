"""The port for SQS: from a request to its action and back, and what the audit log says of changes."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from itertools import count

from leveret.core.errors import LeveretError
from leveret.observability.audit import Audit
from leveret.observability.logs import Log
from leveret.operations.registry import OPERATIONS
from leveret.protocols.http.limits import Throttle
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Admitted, Response
from leveret.protocols.sqs import authorization, message_actions, move_tasks, queue_actions
from leveret.protocols.sqs.account import Account
from leveret.protocols.sqs.authorization import authorize, authorize_name
from leveret.protocols.sqs.errors import SqsError, sqs_error
from leveret.protocols.sqs.queues import SqsQueue, name_of
from leveret.protocols.sqs.receive_message import receive_message
from leveret.protocols.sqs.send_message import send_message, send_message_batch
from leveret.protocols.sqs.settings import WrongRegion
from leveret.protocols.sqs.wire import JSON_WIRE, Answer, SqsCall, SqsCaller, Wire, check_types, query_wire
from leveret.security.logins import NO_NAME, TooManyLogins
from leveret.security.sigv4 import SignatureRefused, SignedRequest, Verifier

GUESSES = frozenset(("InvalidClientTokenId", "SignatureDoesNotMatch"))
"""Refusals that count as failed logins; a missing or expired signature is no guess of a key."""
REQUEST_IDS = 1 << 48
CALLERS_KEPT_MAX = 10_000

LOG = Log("sqs")
REFUSED = LOG.limited("signature refused")

QUEUE_ACTIONS: dict[str, Callable[[SqsCall, SqsQueue], Answer]] = {
    "AddPermission": authorization.add_permission,
    "ChangeMessageVisibility": message_actions.change_message_visibility,
    "ChangeMessageVisibilityBatch": message_actions.change_message_visibility_batch,
    "DeleteMessage": message_actions.delete_message,
    "DeleteMessageBatch": message_actions.delete_message_batch,
    "DeleteQueue": queue_actions.delete_queue,
    "GetQueueAttributes": queue_actions.get_queue_attributes,
    "ListDeadLetterSourceQueues": queue_actions.list_dead_letter_source_queues,
    "ListQueueTags": queue_actions.list_queue_tags,
    "PurgeQueue": queue_actions.purge_queue,
    "ReceiveMessage": receive_message,
    "RemovePermission": authorization.remove_permission,
    "SendMessage": send_message,
    "SendMessageBatch": send_message_batch,
    "SetQueueAttributes": queue_actions.set_queue_attributes,
    "TagQueue": queue_actions.tag_queue,
    "UntagQueue": queue_actions.untag_queue,
}
ACTIONS: dict[str, Callable[[SqsCall], Answer]] = {
    "CancelMessageMoveTask": move_tasks.cancel_message_move_task,
    "CreateQueue": queue_actions.create_queue,
    "GetQueueUrl": queue_actions.get_queue_url,
    "ListMessageMoveTasks": move_tasks.list_message_move_tasks,
    "ListQueues": queue_actions.list_queues,
    "StartMessageMoveTask": move_tasks.start_message_move_task,
}
"""What is about no queue, or about one that is not named by its URL."""
REFUSED_MIN = 400
ANONYMOUS = "(anonymous)"  # signatures are not checked
UNSIGNED = "(unsigned)"
_KEY = re.compile(rb"Credential=([\w-]{1,128})(?:/|%2F)", re.ASCII | re.IGNORECASE)

NOTED: dict[str, tuple[str, ...]] = {
    "AddPermission": ("Label", "AWSAccountIds", "Actions"),
    "CreateQueue": ("Attributes",),
    "RemovePermission": ("Label",),
    "SetQueueAttributes": ("Attributes",),
    "StartMessageMoveTask": ("SourceArn", "DestinationArn", "MaxNumberOfMessagesPerSecond"),
    "TagQueue": ("Tags",),
    "UntagQueue": ("TagKeys",),
}
"""The parameters that are noted besides the queue."""
AUDITED = frozenset(action for action, name in authorization.ACTIONS.items() if OPERATIONS[name].audited)


class Service:
    """The handler of the port."""

    def __init__(self, account: Account, throttle: Throttle | None) -> None:
        """Serve an account; without a throttle, requests whose senders are known already and may ask."""
        self._account = account
        self._throttle = throttle
        self.audit: Audit | None = None
        """Where changes and refused signatures are noted; None: the node that the client has asked notes them."""
        self._now_ms = account.runtime.clock.now_ms
        self._verifier = Verifier("sqs", account.access.access_keys.find)
        self._nobody = account.settings.user_arn("anonymous")
        self._known_caller = lru_cache(maxsize=CALLERS_KEPT_MAX)(self._caller_of)
        chance = secrets.token_hex(10)
        self._prefix = f"{chance[:8]}-{chance[8:12]}-4{chance[12:15]}-8{chance[15:18]}-"
        self._numbers = count(secrets.randbelow(REQUEST_IDS))
        self.check_sender: Callable[[Request], None] = lambda request: None
        """Refuses requests for other servers, and of web pages."""

    def __call__(self, request: Request) -> Answer:
        wire = JSON_WIRE if b"x-amz-target" in request.headers else query_wire(request)
        request_id = self._request_id()
        try:
            self.check_sender(request)
            answer = self._perform(request, wire, request_id)
        except LeveretError as error:
            refused = sqs_error(error)
            if refused.kind in GUESSES and not isinstance(error, WrongRegion):
                return self._refuse_guess(request, wire, request_id, refused)
            return wire.refuse(refused, request_id)
        if isinstance(answer, Response) or wire is JSON_WIRE:
            return answer
        return _in_words_of(wire, request_id, answer)

    async def _refuse_guess(self, request: Request, wire: Wire, request_id: str, refused: SqsError) -> Response:
        """Count a wrong key against its address; after several failures the answer is late."""
        host, access, now_ms = request.peer.host, self._account.access, self._account.now_ms()
        try:
            count = partial(access.users.count_failure, host, now_ms)
            delay_ms = await access.logins.wait(host, NO_NAME, now_ms, count)
        except TooManyLogins as error:
            return wire.refuse(SqsError("RequestThrottled", str(error)), request_id)
        await asyncio.sleep(delay_ms / 1000)
        return wire.refuse(refused, request_id)

    def refuse(self, error: LeveretError) -> Response:
        return JSON_WIRE.refuse(sqs_error(error), self._request_id())

    def _request_id(self) -> str:
        """A name for a request, in the form that AWS has."""
        return f"{self._prefix}{next(self._numbers) % REQUEST_IDS:012x}"

    def _perform(self, request: Request, wire: Wire, request_id: str) -> Answer:
        caller = self._admit(request)
        account = self._account
        if len(account.regions) > 1:
            account = account.of(request, self._throttle is None)
        if request.is_body_pending:
            return Admitted()
        action, parameters = wire.decode(request)
        on_queue = request.method == "GET" and len(request.raw_path) > 1
        known = action in QUEUE_ACTIONS or (action in ACTIONS and (not on_queue or action == "GetQueueUrl"))
        if not known:
            raise SqsError("UnknownOperation" if wire is JSON_WIRE else "InvalidAction", action=action[:100])
        check_types(parameters)
        if len(request.raw_path) > 1 and "QueueUrl" not in parameters:
            parameters["QueueUrl"] = request.raw_path.decode("latin-1")
        call = SqsCall(account, wire, request_id, action, parameters, caller, request)
        if self.audit is not None and action in AUDITED:
            return audited(self.audit, call, partial(self.perform, call))
        return self.perform(call)

    def perform(self, call: SqsCall) -> Answer:
        action = call.action
        function = QUEUE_ACTIONS.get(action)
        if function is not None:
            queue = call.queue()
            authorize(call, queue, action)
            return function(call, queue)
        if action == "CreateQueue":
            authorize_name(call, queue_actions.name_of_new(call), action)
        return ACTIONS[action](call)

    def _caller_of(self, user: str | None, host: str, tls: bool) -> SqsCaller:
        return SqsCaller(user, self._nobody if user is None else self._account.settings.user_arn(user), host, tls)

    def _admit(self, request: Request) -> SqsCaller:
        """Who sent a request, unless it sends too many."""
        if self._throttle is None:
            identity, peer = request.identity, request.peer
            return self._known_caller(None if identity is None else identity.user, peer.host, peer.tls)
        caller = self._caller(request, self._throttle)
        if not request.is_counted:
            self._throttle.admit(caller.host, caller.user)
            request.is_counted = caller.user is not None or not self._account.settings.auth
        return caller

    def _caller(self, request: Request, throttle: Throttle) -> SqsCaller:
        peer = request.peer
        if not self._account.settings.auth:
            peer.authenticated()  # as well as anybody can be
            return self._known_caller(None, peer.host, peer.tls)
        body = None if request.is_body_pending else request.body
        signed = SignedRequest(request.method, request.raw_path, request.raw_query, request.headers, body)
        try:
            key = self._verifier.verify(signed, self._now_ms())
        except SignatureRefused as error:
            throttle.admit(peer.host, None)
            REFUSED.note(peer=peer.host, reason=error.reason)
            if self.audit is not None:
                self.audit.login_failed("SQS", claimed_key(request), peer.host, error.reason)
            raise SqsError(error.reason, str(error)) from None
        if not signed.can_be_proved:
            return self._known_caller(None, peer.host, peer.tls)
        peer.authenticated()
        return self._known_caller(key.user, peer.host, peer.tls)


async def _in_words_of(wire: Wire, request_id: str, answer: Awaitable[Response]) -> Response:
    """Wait for an answer; a refusal is told in the protocol of the request."""
    try:
        return await answer
    except LeveretError as error:
        return wire.refuse(sqs_error(error), request_id)


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
    if response.status >= REFUSED_MIN:
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
    return facts | {name: given[name] for name in NOTED.get(call.action, ()) if name in given}


def claimed_key(request: Request) -> str:
    """The id of the access key that a request says it is signed with; it proves nothing."""
    found = _KEY.search(request.headers.get(b"authorization", b"")) or _KEY.search(request.raw_query)
    return UNSIGNED if found is None else found[1].decode("ascii")
