"""The matrix of rights by SQS: every action with rights that are just enough, and with those that must not be."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from leveret.core.errors import LeveretError
from leveret.protocols.sqs.authorization import ACTIONS
from leveret.protocols.sqs.service import ACTIONS as UNNAMED
from leveret.protocols.sqs.service import QUEUE_ACTIONS
from tests.protocols.sqs.test_authorization import DLQ, QUEUE, REDRIVE, Guarded, statement
from tests.security.matrix import Ask, Case, cases

ORDERS = {"QueueUrl": "orders"}
BATCH = {"Entries": [{"Id": "a", "MessageBody": "x", "ReceiptHandle": "x", "VisibilityTimeout": 1}]}
PARAMETERS: dict[str, Any] = {
    "AddPermission": {"Label": "a", "AWSAccountIds": ["*"], "Actions": ["GetQueueUrl"]},
    "ChangeMessageVisibility": {"ReceiptHandle": "x", "VisibilityTimeout": 1},
    "RemovePermission": {"Label": "a"},
    "DeleteMessage": {"ReceiptHandle": "x"},
    "SendMessage": {"MessageBody": "x"},
    "SetQueueAttributes": {"Attributes": {"VisibilityTimeout": "5"}},
    "TagQueue": {"Tags": {"a": "b"}},
    "UntagQueue": {"TagKeys": ["a"]},
    "GetQueueUrl": {"QueueName": "orders"},
    "CreateQueue": {"QueueName": "new"},
    "StartMessageMoveTask": {"SourceArn": DLQ},
    "ListMessageMoveTasks": {"SourceArn": DLQ},
    **dict.fromkeys(("SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"), BATCH),
}
NAMED = {"CreateQueue": "new", "StartMessageMoveTask": "dlq", "ListMessageMoveTasks": "dlq"}
SEND = Ask("queue.send", queue="orders")
GET = Ask("basic.get", queue="orders")


def grants(*actions: str) -> dict[str, str]:
    """Attributes with a policy that allows actions."""
    return {"Policy": json.dumps({"Statement": [statement(action=list(actions), principal="*")]})}


MORE: dict[tuple[str, str], tuple[Any, list[Ask]]] = {
    ("SetQueueAttributes", "RedrivePolicy"): (
        {"Attributes": REDRIVE},
        [Ask("queue.update", queue="orders", dead_letter_queue="dlq")],
    ),
    ("CreateQueue", "RedrivePolicy"): (
        {"QueueName": "new", "Attributes": REDRIVE},
        [Ask("queue.declare", queue="new", dead_letter_queue="dlq")],
    ),
    ("SetQueueAttributes", "Policy"): (
        {"Attributes": grants("sqs:Send*", "sqs:ReceiveMessage")},
        [Ask("queue.update", queue="orders"), SEND, GET],
    ),
    ("CreateQueue", "Policy"): (
        {"QueueName": "new", "Attributes": grants("sqs:SendMessage")},
        [Ask("queue.declare", queue="new"), Ask("queue.send", queue="new")],
    ),
    ("AddPermission", "SendMessage"): (
        {"Label": "b", "AWSAccountIds": ["*"], "Actions": ["SendMessage"]},
        [Ask("queue.grant", queue="orders"), SEND],
    ),
    ("AddPermission", "*"): (
        {"Label": "b", "AWSAccountIds": ["*"], "Actions": ["*"]},
        [Ask("queue.grant", queue="orders"), SEND, GET],
    ),
    ("StartMessageMoveTask", "DestinationArn"): (
        {"SourceArn": DLQ, "DestinationArn": QUEUE},
        [Ask("queue.redrive", queue="dlq", destination_queue="orders")],
    ),
    ("StartMessageMoveTask", ""): (
        {"SourceArn": DLQ},
        [Ask("queue.redrive", queue="dlq", destination_queue="orders")],
    ),
}
LISTED = {"ListQueues", "CancelMessageMoveTask"}
"""A list shows what the user may see; a task is cancelled by its handle: tests/protocols/sqs has both."""
REQUESTS: dict[tuple[str, str], tuple[Any, list[Ask]]] = {
    **{
        (action, ""): (
            PARAMETERS.get(action, {}),
            [Ask(ACTIONS[action.removesuffix("Batch")], queue=NAMED.get(action, "orders"))],
        )
        for action in [*QUEUE_ACTIONS, *UNNAMED]
        if action not in LISTED
    },
    **MORE,
}


class Matrix(Guarded):
    """A service with a user whose permissions a case says."""

    def restore(self) -> None:
        """Make what earlier cases have deleted or changed."""
        with self.broker.runtime as core:
            for name in ("new", "orders", "dlq"):
                found = self.account.queues.find(name)
                if found is not None:
                    self.account.queues.delete(found)
            core.declare_queue("/", "dlq", {})
            core.declare_queue("/", "orders", {})
            orders = self.account.queues.get("orders")
            self.account.queues.change(orders, REDRIVE)

    def allow(self, case: Case) -> None:
        """Give the user the permissions of a case."""
        with self.broker.runtime:
            with suppress(LeveretError):
                self.access.clear_permission("ada", "/")
            if case.patterns is not None:
                self.access.set_permission("ada", "/", *case.triple)

    def is_refused(self, action: str, parameters: dict[str, Any]) -> bool:
        """Whether the service says that the user may not; of a queue that may not be seen, that there is none."""
        answer = self.json(action, **{**(ORDERS if action in QUEUE_ACTIONS else {}), **parameters})
        assert answer.status < 500, answer
        kind = "" if answer.status == 200 else answer.json["__type"]
        return kind.endswith(("#AccessDeniedException", "#QueueDoesNotExist"))


@pytest.fixture
def world() -> Iterator[Matrix]:
    made = Matrix()
    yield made
    made.end()


@pytest.mark.parametrize("key", REQUESTS, ids=" ".join)
def test_an_action_needs_its_rights_and_no_others(world: Matrix, key: tuple[str, str]) -> None:
    parameters, asks = REQUESTS[key]
    wrong = []
    for case in cases(asks):
        world.restore()
        world.allow(case)
        if world.is_refused(key[0], parameters) == case.allowed:
            wrong.append(case.label)
    assert wrong == []


def test_every_action_is_asked_for() -> None:
    assert {action for action, _ in REQUESTS} | LISTED == {*QUEUE_ACTIONS, *UNNAMED}
    assert {action.removesuffix("Batch") for action in (*QUEUE_ACTIONS, *UNNAMED)} == set(ACTIONS)
