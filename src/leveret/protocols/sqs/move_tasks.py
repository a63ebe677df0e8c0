"""Move tasks: dead letters on their way back to where they died, or to another queue, in the background.

Tasks are journaled when they start and when they end. One that a restart interrupted has failed: what it had moved is
moved, the rest is where it was.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from leveret.core.definition_log import Kind
from leveret.core.errors import LeveretError
from leveret.core.filters import Filter
from leveret.observability.logs import Log
from leveret.protocols.http.async_broker import AsyncBroker
from leveret.protocols.http.response import Response
from leveret.protocols.sqs.authorization import authorize, may
from leveret.protocols.sqs.errors import SqsError, invalid
from leveret.protocols.sqs.queues import Queues, SqsQueue
from leveret.protocols.sqs.wire import Answer, SqsCall, number, required
from leveret.runtime.redrive import Redrive
from leveret.runtime.runtime import Runtime

KEPT_PER_SOURCE = 10
RUNNING, CANCELLING, CANCELLED, COMPLETED, FAILED = "RUNNING", "CANCELLING", "CANCELLED", "COMPLETED", "FAILED"
ACTIVE = frozenset((RUNNING, CANCELLING))
NO_QUEUE = "AWS.SimpleQueueService.NonExistentQueue"
NO_SOURCE = "CouldNotDetermineMessageSource"
INTERRUPTED = "ServerRestarted"
DEFAULT_REGION = ""  # so that what was stored before there were regions belongs to it

LOG = Log("sqs")
RATE_MAX = 500
RESULTS_MAX = 10


@dataclass(slots=True)
class MoveTask:
    """One task; queues by their names."""

    name: str
    source: str
    destination: str | None
    rate: int | None
    started_ms: int
    to_move: int
    status: str = RUNNING
    moved: int = 0
    failure: str | None = None
    region: str = DEFAULT_REGION

    def handle(self, arn: str) -> str:
        return urlsafe_b64encode(json.dumps({"taskId": self.name, "sourceArn": arn}).encode()).decode()


def task_of(handle: str) -> tuple[str, str]:
    """The name of the task that a handle names, and the ARN of its source."""
    try:
        told = json.loads(urlsafe_b64decode(handle))
        return str(told["taskId"]), str(told.get("sourceArn", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise invalid("Value for parameter TaskHandle is invalid.") from None


class MoveTasks:
    """The tasks of all queues of a region, the newest last."""

    def __init__(self, runtime: Runtime, queues: Queues, async_broker: AsyncBroker, region: str) -> None:
        """Take up what is known of a region; nothing runs after a restart."""
        self._runtime = runtime
        self._queues = queues
        self._async_broker = async_broker
        self._region = region
        self._tasks: dict[str, MoveTask] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        with runtime as core:
            stored = sorted(core.catalog.of(Kind.MOVE_TASK), key=lambda row: row["started_ms"])
            for task in (MoveTask(**row) for row in stored):
                if task.region != region:
                    continue
                self._tasks[task.name] = task
                if task.status in ACTIVE:
                    task.status, task.failure = FAILED, INTERRUPTED
                    self._keep(task)

    def close(self) -> None:
        for running in self._running.values():
            running.cancel()

    def start(
        self, source: SqsQueue, destination: str | None, rate: int | None, allows: Callable[[str], bool]
    ) -> MoveTask:
        """Begin to move the messages of a queue to those queues that `allows` has."""
        if any(task.status in ACTIVE for task in self.of(source.name)):
            raise invalid(
                "There is already a task running. Only one active task is allowed for a source queue arn at a given "
                "time."
            )
        now_ms = self._runtime.clock.now_ms()
        task = MoveTask(
            secrets.token_hex(16), source.name, destination, rate, now_ms, source.core.depth, region=self._region
        )
        redrive = Redrive(self._runtime, source.core, destination, Filter(), None, rate, False, allows)
        redrive.begin()
        self._tasks[task.name] = task
        with self._runtime:
            self._keep(task)
            self._forget(source.name)
        self._running[task.name] = self._async_broker.loop.create_task(self._run(task, redrive))
        return task

    def of(self, source: str) -> Iterator[MoveTask]:
        return (task for task in reversed(self._tasks.values()) if task.source == source)

    def find(self, handle: str) -> MoveTask:
        task = self._tasks.get(task_of(handle)[0])
        if task is None or task.status not in ACTIVE:
            raise SqsError("ResourceNotFound", "Task does not exist.")
        return task

    async def _run(self, task: MoveTask, redrive: Redrive) -> None:
        """Move step by step; whatever happens, the task ends in a state."""
        try:
            while not redrive.ended and task.status == RUNNING and not self._lacks_destination(task):
                before = redrive.result.moved
                await self._runtime.wait_async(redrive.step())
                task.moved = redrive.result.moved
                await asyncio.sleep((task.moved - before) / task.rate if task.rate else 0)
            self._end(task, redrive)
        except LeveretError as error:
            task.status, task.failure = FAILED, type(error).__name__
            LOG.error("move task failed", error, source=task.source)
        finally:
            self._running.pop(task.name, None)

    def _lacks_destination(self, task: MoveTask) -> bool:
        return task.destination is not None and self._queues.find(task.destination) is None

    def _end(self, task: MoveTask, redrive: Redrive) -> None:
        if task.status == CANCELLING:
            task.status = CANCELLED
        elif self._lacks_destination(task):
            task.status, task.failure = FAILED, NO_QUEUE
        elif redrive.result.skipped:
            task.status, task.failure = FAILED, NO_SOURCE
        else:
            task.status = COMPLETED
        with self._runtime:
            self._keep(task)

    def _keep(self, task: MoveTask) -> None:
        row: dict[str, Any] = asdict(task)
        self._runtime.core.define(Kind.MOVE_TASK, row)

    def _forget(self, source: str) -> None:
        for task in list(self.of(source))[KEPT_PER_SOURCE:]:
            del self._tasks[task.name]
            self._runtime.core.undefine(Kind.MOVE_TASK, {"name": task.name})


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
