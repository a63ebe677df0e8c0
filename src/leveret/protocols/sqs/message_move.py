"""StartMessageMoveTask, CancelMessageMoveTask and ListMessageMoveTasks."""

from typing import Any

from leveret.protocols.http.response import Response
from leveret.protocols.sqs.authorization import authorize, may
from leveret.protocols.sqs.call import Answer, SqsCall
from leveret.protocols.sqs.errors import SqsError, invalid
from leveret.protocols.sqs.move_tasks import CANCELLING, RUNNING, MoveTask
from leveret.protocols.sqs.parameters import number, required
from leveret.protocols.sqs.queues import Queues, SqsQueue

RATE_MAX = 500
RESULTS_MAX = 10


def start_message_move_task(call: SqsCall) -> Answer:
    """Begin to move the messages of a queue for dead letters."""
    given = call.parameters
    source = _source(call)
    rate = number(given, "MaxNumberOfMessagesPerSecond", RATE_MAX, least=1)
    destination = None
    everywhere = call.account.everywhere
    with everywhere.runtime:
        sources = everywhere.sources(source.name)
    if not sources:
        raise invalid("Source queue must be configured as a Dead Letter Queue.")
    if given.get("DestinationArn"):
        target = _queue(call, "DestinationArn", everywhere)
        destination, sources = target.name, [target]
    for target in sources:
        authorize(call, target, "SendMessage")

    def sends_to(name: str) -> bool:
        found = everywhere.find(name)
        return found is not None and may(call, found, "SendMessage")

    task = call.account.tasks.start(source, destination, rate, sends_to)
    with call.account.runtime:
        commit_batch = call.account.runtime.commit()
    return call.durable(commit_batch, {"TaskHandle": task.handle(source.arn)})


def cancel_message_move_task(call: SqsCall) -> Response:
    """Stop a task; what it has moved stays moved."""
    task = call.account.tasks.find(required(call.parameters, "TaskHandle"))
    authorize(call, call.account.queues.get(task.source), "ReceiveMessage")
    task.status = CANCELLING
    return call.answer({"ApproximateNumberOfMessagesMoved": task.moved})


def list_message_move_tasks(call: SqsCall) -> Response:
    """The newest tasks of a queue."""
    source = _source(call)
    count = number(call.parameters, "MaxResults", RESULTS_MAX, least=1) or 1
    found = [_shown(call, source, task) for task in call.account.tasks.of(source.name)]
    return call.answer({"Results": found[:count]})


def _source(call: SqsCall) -> SqsQueue:
    source = _queue(call, "SourceArn", call.account.queues)
    authorize(call, source, "ReceiveMessage")
    return source


def _queue(call: SqsCall, parameter: str, queues: Queues) -> SqsQueue:
    """The queue of the ARN that a parameter has."""
    arn: str = required(call.parameters, parameter)
    if arn.count(":") < 5 or not arn.startswith("arn:"):
        raise invalid(
            f"You must use this format to specify the {parameter}: "
            "arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
        )
    name = call.account.settings.queue_of(arn)
    queue = None if name is None else queues.find(name)
    if queue is None:
        text = f"The resource that you specified for the {parameter} parameter doesn't exist."
        raise SqsError("ResourceNotFound", text)
    return queue


def _shown(call: SqsCall, source: SqsQueue, task: MoveTask) -> dict[str, Any]:
    """A task as an answer has it; only one that runs can be named."""
    told: dict[str, Any] = {"TaskHandle": task.handle(source.arn)} if task.status == RUNNING else {}
    told |= {"Status": task.status, "SourceArn": source.arn}
    if task.destination is not None:
        told["DestinationArn"] = call.account.settings.arn(task.destination)
    if task.rate is not None:
        told["MaxNumberOfMessagesPerSecond"] = task.rate
    told |= {
        "ApproximateNumberOfMessagesMoved": task.moved,
        "ApproximateNumberOfMessagesToMove": task.to_move,
        "StartedTimestamp": task.started_ms,
    }
    if task.failure is not None:
        told["FailureReason"] = task.failure
    return told
