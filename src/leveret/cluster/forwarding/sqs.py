"""SQS on a node: signatures are verified, and requests counted and dispatched here; a shard gets the user's name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from leveret.cluster.forwarding.dispatcher import OperationDispatcher, Task
from leveret.core.broker import Broker
from leveret.core.errors import LeveretError
from leveret.operations.operation import Operation
from leveret.operations.registry import OPERATIONS
from leveret.protocols.http.cluster import PLAIN, InCluster
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Response
from leveret.protocols.sqs.account import Account
from leveret.protocols.sqs.authorization import ACTIONS as NAMES
from leveret.protocols.sqs.move_tasks import task_of
from leveret.protocols.sqs.queues import name_of
from leveret.protocols.sqs.send_message import check_alarm
from leveret.protocols.sqs.service import ACTIONS, QUEUE_ACTIONS, Service
from leveret.protocols.sqs.settings import FORWARDED
from leveret.protocols.sqs.wire import Answer, SqsCall, required
from leveret.security.identity import Identity

if TYPE_CHECKING:
    from leveret.cluster.node import Node
    from leveret.protocols.http.limits import Throttle

EDGE = "sqs"
SENDING = frozenset(("SendMessage", "SendMessageBatch"))


class NodeService(Service):
    """The handler of the port on a node."""

    def __init__(self, account: Account, throttle: Throttle, node: Node) -> None:
        """Serve an account on the catalog replica."""
        super().__init__(account, throttle)
        self._node = node
        self._dispatcher = OperationDispatcher(node, EDGE)

    def __call__(self, request: Request) -> Answer:
        """Answer a request, as soon as this node knows the newest keys and queues."""
        stale = self._node.stale_clients.wait()
        return super().__call__(request) if stale is None else self._answer_after(stale, request)

    async def _answer_after(self, stale: Awaitable[None], request: Request) -> Response:
        try:
            await stale
        except LeveretError as error:
            return self.refuse(error)
        answer = super().__call__(request)
        return await answer if isinstance(answer, Awaitable) else answer

    def perform(self, call: SqsCall) -> Answer:
        operation, request = ROWS[call.action], call.request
        run: Callable[[], Answer] = partial(Service.perform, self, call)
        queue, shard_id, vhost = None, None, call.account.settings.vhost
        if operation.scope == "shard":
            named = _queue_of(call)
            shard_id = None if named is None else self._node.shard_id_of(vhost, named)
            if call.action in SENDING:
                check_alarm(call)
            request.identity = None if call.caller.user is None else Identity(call.caller.user)
            request.headers[FORWARDED] = call.account.settings.region.encode()
        elif not operation.idempotent:
            queue = str(call.parameters.get("QueueName") or name_of(str(call.parameters.get("QueueUrl"))))
            run = partial(self._decide, call, run)
        task = Task(operation, call, request, run, IN_CLUSTER.get(call.action, PLAIN), vhost, queue, shard_id)
        return cast("Answer", self._dispatcher.run(task))  # SQS has no answers in parts

    async def _decide(self, call: SqsCall, run: Callable[[], Answer]) -> Response:
        """Change the catalog for all nodes; perhaps more than once. The replica waits for no disk."""
        return cast("Response", await self._node.decide(lambda core: run()))


def _queue_of(call: SqsCall) -> str | None:
    """The queue whose shard performs an action; None: an ARN names no queue of this account."""
    if call.action in QUEUE_ACTIONS:
        return call.queue().name
    if call.action == "CancelMessageMoveTask":
        arn = task_of(required(call.parameters, "TaskHandle"))[1]
    else:
        arn = call.parameters.get("SourceArn") or ""
    name = call.account.settings.queue_of(arn)
    queue = None if name is None else call.account.queues.find(name)
    return None if queue is None else queue.name


def _forgotten(call: SqsCall) -> Callable[[Broker], Any]:
    """Deletes a queue from the catalog after its shard, which may have deleted it there already."""
    queue, queues = call.queue(), call.account.queues

    def forget(core: Broker) -> None:
        found = queues.find(queue.name)
        queues.reconnect(queue.name) if found is None else queues.delete(found)
        call.account.note_deleted(queue.name)

    return forget


def _purged(call: SqsCall) -> Callable[[Broker], Any]:
    """Lets the next owner know, too, that messages from before the purge are no duplicates any more."""
    queue, queues = call.queue(), call.account.queues

    def note(core: Broker) -> None:
        found = queues.get(queue.name)
        found.details["purges"] += 1
        queues.keep(found)

    return note


ROWS: dict[str, Operation] = {
    action: OPERATIONS[NAMES[action.removesuffix("Batch")]] for action in (*QUEUE_ACTIONS, *ACTIONS)
}
IN_CLUSTER = {"DeleteQueue": InCluster(after=_forgotten), "PurgeQueue": InCluster(after=_purged)}
