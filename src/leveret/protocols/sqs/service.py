"""The port for SQS: from a request to its action and back, by both protocols."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from itertools import count
from typing import cast

from leveret.core.errors import LeveretError
from leveret.observability.audit import Audit
from leveret.observability.logs import Log
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Admitted, Response
from leveret.protocols.http.throttle import Throttle
from leveret.protocols.sqs import (
    change_visibility,
    create_queue,
    delete_message,
    delete_queue,
    json_protocol,
    list_queues,
    message_move,
    permissions,
    query_json,
    query_protocol,
    queue_attributes,
    queue_tags,
    receive_message,
    send_message,
)
from leveret.protocols.sqs.account import Account
from leveret.protocols.sqs.audited import CHANGES, audited, claimed_key
from leveret.protocols.sqs.authorization import authorize, authorize_name
from leveret.protocols.sqs.call import Answer, SqsCall, SqsCaller, Wire
from leveret.protocols.sqs.errors import SqsError, sqs_error
from leveret.protocols.sqs.parameters import check_types
from leveret.protocols.sqs.queues import SqsQueue
from leveret.protocols.sqs.regions import WrongRegion
from leveret.security.logins import NO_NAME, TooManyLogins
from leveret.security.sigv4 import SignatureRefused, SignedRequest, Verifier

JSON = cast(Wire, json_protocol)
QUERY = cast(Wire, query_protocol)
QUERY_JSON = cast(Wire, query_json)
GUESSES = frozenset(("InvalidClientTokenId", "SignatureDoesNotMatch"))
"""Refusals that count as failed logins; a missing or expired signature is no guess of a key."""
REQUEST_IDS = 1 << 48
CALLERS_KEPT_MAX = 10_000

LOG = Log("sqs")
REFUSED = LOG.limited("signature refused")

QUEUE_ACTIONS: dict[str, Callable[[SqsCall, SqsQueue], Answer]] = {
    "AddPermission": permissions.add_permission,
    "ChangeMessageVisibility": change_visibility.change_message_visibility,
    "ChangeMessageVisibilityBatch": change_visibility.change_message_visibility_batch,
    "DeleteMessage": delete_message.delete_message,
    "DeleteMessageBatch": delete_message.delete_message_batch,
    "DeleteQueue": delete_queue.delete_queue,
    "GetQueueAttributes": queue_attributes.get_queue_attributes,
    "ListDeadLetterSourceQueues": list_queues.list_dead_letter_source_queues,
    "ListQueueTags": queue_tags.list_queue_tags,
    "PurgeQueue": delete_queue.purge_queue,
    "ReceiveMessage": receive_message.receive_message,
    "RemovePermission": permissions.remove_permission,
    "SendMessage": send_message.send_message,
    "SendMessageBatch": send_message.send_message_batch,
    "SetQueueAttributes": queue_attributes.set_queue_attributes,
    "TagQueue": queue_tags.tag_queue,
    "UntagQueue": queue_tags.untag_queue,
}
ACTIONS: dict[str, Callable[[SqsCall], Answer]] = {
    "CancelMessageMoveTask": message_move.cancel_message_move_task,
    "CreateQueue": create_queue.create_queue,
    "GetQueueUrl": list_queues.get_queue_url,
    "ListMessageMoveTasks": message_move.list_message_move_tasks,
    "ListQueues": list_queues.list_queues,
    "StartMessageMoveTask": message_move.start_message_move_task,
}
"""What is about no queue, or about one that is not named by its URL."""


class Service:
    """The handler of the port."""

    def __init__(self, account: Account, throttle: Throttle | None) -> None:
        """Serve an account; without a throttle, requests whose senders are known already and may ask."""
        self._account = account
        self._throttle = throttle
        self.audit: Audit | None = None
        """Where changes and refused signatures are noted; None: the node that the client has asked notes them."""
        self._verifier = Verifier("sqs", account.access.access_keys.find)
        self._nobody = account.settings.user_arn("anonymous")
        self._known_caller = lru_cache(maxsize=CALLERS_KEPT_MAX)(self._caller_of)
        chance = secrets.token_hex(10)
        self._prefix = f"{chance[:8]}-{chance[8:12]}-4{chance[12:15]}-8{chance[15:18]}-"
        self._numbers = count(secrets.randbelow(REQUEST_IDS))
        self.check_sender: Callable[[Request], None] = lambda request: None
        """Refuses requests for other servers, and of web pages."""

    def __call__(self, request: Request) -> Answer:
        wire = JSON if b"x-amz-target" in request.headers else query_wire(request)
        request_id = self._request_id()
        try:
            self.check_sender(request)
            answer = self._perform(request, wire, request_id)
        except LeveretError as error:
            refused = sqs_error(error)
            if refused.kind in GUESSES and not isinstance(error, WrongRegion):
                return self._refuse_guess(request, wire, request_id, refused)
            return wire.refuse(refused, request_id)
        if isinstance(answer, Response) or wire is JSON:
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
        """The answer to what is refused before or after a handler has it."""
        return JSON.refuse(sqs_error(error), self._request_id())

    def _request_id(self) -> str:
        """A name for a request, in the form that AWS has."""
        return f"{self._prefix}{next(self._numbers) % REQUEST_IDS:012x}"

    def _perform(self, request: Request, wire: Wire, request_id: str) -> Answer:
        """Do what a request asks for, if its sender may."""
        caller = self._admit(request)
        account = self._account.of(request, self._throttle is None)
        if request.is_body_pending:
            return Admitted()
        action, parameters = wire.decode(request)
        on_queue = request.method == "GET" and len(request.raw_path) > 1
        known = action in QUEUE_ACTIONS or (action in ACTIONS and (not on_queue or action == "GetQueueUrl"))
        if not known:
            raise SqsError("UnknownOperation" if wire is JSON else "InvalidAction", action=action[:100])
        check_types(parameters)
        if len(request.raw_path) > 1 and "QueueUrl" not in parameters:
            parameters["QueueUrl"] = request.raw_path.decode("latin-1")
        call = SqsCall(account, wire, request_id, action, parameters, caller, request)
        if self.audit is not None and action in CHANGES:
            return audited(self.audit, call, partial(self.perform, call))
        return self.perform(call)

    def perform(self, call: SqsCall) -> Answer:
        """Do what a call asks for."""
        action = call.action
        function = QUEUE_ACTIONS.get(action)
        if function is not None:
            queue = call.queue()
            authorize(call, queue, action)
            return function(call, queue)
        if action == "CreateQueue":
            authorize_name(call, create_queue.name_of_new(call), action)
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
        """Who sent a request, by its signature."""
        peer = request.peer
        if not self._account.settings.auth:
            peer.authenticated()  # as well as anybody can be
            return self._known_caller(None, peer.host, peer.tls)
        body = None if request.is_body_pending else request.body
        signed = SignedRequest(request.method, request.raw_path, request.raw_query, request.headers, body)
        try:
            key = self._verifier.verify(signed, self._account.now_ms())
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


def query_wire(request: Request) -> Wire:
    """The form of results that a client of the Query protocol accepts."""
    return QUERY_JSON if request.headers.get(b"accept", b"").startswith(b"application/json") else QUERY


async def _in_words_of(wire: Wire, request_id: str, answer: Awaitable[Response]) -> Response:
    """Wait for an answer; a refusal is told in the protocol of the request."""
    try:
        return await answer
    except LeveretError as error:
        return wire.refuse(sqs_error(error), request_id)
