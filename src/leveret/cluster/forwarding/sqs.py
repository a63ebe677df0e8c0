"""SQS on a node: where each action is done.

    messages of a queue                  in the shard that has it
    attributes, tags, permissions        decided for all nodes, on the copy of the catalog
    names                                by the copy

Signatures are verified and requests are counted here; a shard is told who it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar, cast

from leveret.cluster.forwarding.auto_deleted import AutoDeleted
from leveret.core.errors import LeveretError
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Response
from leveret.protocols.sqs.account import Account
from leveret.protocols.sqs.call import Answer, SqsCall
from leveret.protocols.sqs.move_tasks import task_of
from leveret.protocols.sqs.parameters import required
from leveret.protocols.sqs.queues import name_of
from leveret.protocols.sqs.send_message import check_alarm
from leveret.protocols.sqs.service import ACTIONS, QUEUE_ACTIONS, Service
from leveret.protocols.sqs.settings import FORWARDED
from leveret.security.identity import Identity

if TYPE_CHECKING:
    from leveret.cluster.node import Node
    from leveret.protocols.http.throttle import Throttle

EDGE = "sqs"
OK = 200

T = TypeVar("T")
SqsHandler = Callable[["NodeService", SqsCall], Answer]


class NodeService(Service):
    """The handler of the port on a node."""

    def __init__(self, account: Account, throttle: Throttle, node: Node) -> None:
        """Serve an account on the copy of the catalog; ask the shards by a node."""
        super().__init__(account, throttle)
        self.node = node
        self.auto_deleted = AutoDeleted(node)

    def __call__(self, request: Request) -> Answer:
        """Answer a request, as soon as this node knows the newest keys and queues."""
        stale = self.node.stale_clients.wait()
        return super().__call__(request) if stale is None else self._answer_after(stale, request)

    async def _answer_after(self, stale: Awaitable[None], request: Request) -> Response:
        try:
            await stale
        except LeveretError as error:
            return self.refuse(error)
        return await _awaited(super().__call__(request))

    def perform(self, call: SqsCall) -> Answer:
        """Do what a call asks for, where it is done."""
        return HANDLERS[call.action](self, call)

    def here(self, call: SqsCall) -> Answer:
        """By what the copy of the catalog knows."""
        return super().perform(call)

    async def decide(self, call: SqsCall, verb: Callable[[], T]) -> T:
        """Do something for all nodes, on the copy of the catalog; perhaps more than once."""
        return cast("T", await self.node.decide(lambda core: verb()))

    def in_shard(self, call: SqsCall, queue: str) -> Answer:
        """By the shard of a queue, which is told who asks."""
        if call.action in SENDING:
            check_alarm(call)
        user = call.caller.user
        call.request.identity = None if user is None else Identity(user)
        call.request.headers[FORWARDED] = call.account.settings.region.encode()
        shard_id = self.node.shard_id_of(call.account.settings.vhost, queue)
        # SQS has no answers in parts.
        return cast("Answer", self.node.forwarder.ask(shard_id, EDGE, call.request, call.action in TAKING))


def here(service: NodeService, call: SqsCall) -> Answer:
    """By what this node's catalog replica knows."""
    return service.here(call)


def decided(service: NodeService, call: SqsCall) -> Answer:
    """For all nodes; the copy waits for no disk, and so its answer is one."""
    name = str(call.parameters.get("QueueName") or name_of(str(call.parameters.get("QueueUrl"))))
    # Of a queue that goes by itself the copy may not have heard yet.
    return service.auto_deleted.then(
        call.account.settings.vhost,
        name,
        lambda: service.decide(call, lambda: cast("Response", service.here(call))),
    )


def in_shard(service: NodeService, call: SqsCall) -> Answer:
    """By the shard of the queue that the URL names."""
    return service.in_shard(call, call.queue().name)


async def delete(service: NodeService, call: SqsCall) -> Response:
    """By the shard, which has the messages, then for all nodes; its shard may have told them already."""
    queue, queues = call.queue(), call.account.queues

    def forget() -> None:
        found = queues.find(queue.name)
        queues.reconnect(queue.name) if found is None else queues.delete(found)
        call.account.note_deleted(queue.name)

    answer = await _awaited(in_shard(service, call))
    if answer.status == OK:
        await service.decide(call, forget)
    return answer


async def purge(service: NodeService, call: SqsCall) -> Response:
    """By the shard; that what was sent before is no duplicate any more is for its next owner to know, too."""
    queue, queues = call.queue(), call.account.queues

    def note() -> None:
        found = queues.get(queue.name)
        found.details["purges"] += 1
        queues.keep(found)

    answer = await _awaited(in_shard(service, call))
    if answer.status == OK:
        await service.decide(call, note)
    return answer


async def _awaited(answer: Answer) -> Response:
    return await answer if isinstance(answer, Awaitable) else answer


def of_source(service: NodeService, call: SqsCall) -> Answer:
    """By the shard of the queue that an ARN names."""
    return _of_arn(service, call, call.parameters.get("SourceArn") or "")


def of_task(service: NodeService, call: SqsCall) -> Answer:
    """By the shard of the queue whose messages a task moves."""
    return _of_arn(service, call, task_of(required(call.parameters, "TaskHandle"))[1])


def _of_arn(service: NodeService, call: SqsCall, arn: str) -> Answer:
    name = call.account.settings.queue_of(arn)
    queue = None if name is None else call.account.queues.find(name)
    return service.here(call) if queue is None else service.in_shard(call, queue.name)


SENDING = frozenset(("SendMessage", "SendMessageBatch"))
TAKING = frozenset(("ReceiveMessage", "GetQueueAttributes", "ListMessageMoveTasks"))
"""What may be asked for twice: what the first one has taken comes again."""

HANDLERS: dict[str, SqsHandler] = {
    **dict.fromkeys([*QUEUE_ACTIONS, *ACTIONS], in_shard),
    **dict.fromkeys(("GetQueueUrl", "ListQueues", "ListDeadLetterSourceQueues", "ListQueueTags"), here),
    **dict.fromkeys(
        ("AddPermission", "CreateQueue", "RemovePermission", "SetQueueAttributes", "TagQueue", "UntagQueue"), decided
    ),
    "DeleteQueue": delete,
    "PurgeQueue": purge,
    **dict.fromkeys(("ListMessageMoveTasks", "StartMessageMoveTask"), of_source),
    "CancelMessageMoveTask": of_task,
}
