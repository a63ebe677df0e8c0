"""What SQS made comes back from a file of definitions."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from leveret.operations.context import OperationContext
from leveret.operations.definitions import SECTIONS, give_out, take_in
from leveret.protocols.sqs.queue_actions import kept_details
from tests.protocols.sqs.world import World

POLICY = json.dumps({"deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:dead", "maxReceiveCount": 4})
QUEUES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "dead": ({"KmsMasterKeyId": "mine"}, {}),
    "orders": ({"RedrivePolicy": POLICY, "VisibilityTimeout": "7", "ReceiveMessageWaitTimeSeconds": "3"}, {"a": "b"}),
    "orders.fifo": ({"FifoQueue": "true", "FifoThroughputLimit": "perQueue"}, {"team": ""}),
}


@pytest.fixture
def other_world() -> Iterator[World]:
    world = World()
    yield world
    world.end()


def context(world: World) -> OperationContext:
    return OperationContext(world.broker.runtime.core, world.access, dict, check_details=kept_details)


def exported(world: World) -> dict[str, list[Any]]:
    with world.broker.runtime:
        file = {section: give_out(context(world), section)["objects"] for section in SECTIONS}
    read: dict[str, list[Any]] = json.loads(json.dumps(file))
    return read


def imported(world: World, file: dict[str, list[Any]]) -> list[Any]:
    with world.broker.runtime:
        return [each for section in SECTIONS for each in take_in(context(world), section, file[section])["skipped"]]


def answers(world: World) -> dict[str, Any]:
    return {
        name: (
            world.do("GetQueueAttributes", QueueUrl=name, AttributeNames=["All"]),
            world.do("ListQueueTags", QueueUrl=name),
        )
        for name in QUEUES
    }


def test_an_imported_broker_answers_as_the_exported_one_did(world: World, other_world: World) -> None:
    for name, (attributes, tags) in QUEUES.items():
        world.do("CreateQueue", QueueName=name, Attributes=attributes, tags=tags)
    world.do("SetQueueAttributes", QueueUrl="dead", Attributes={"KmsMasterKeyId": ""})
    world.later(90)
    other_world.do("ListQueues")
    assert imported(other_world, exported(world)) == []
    assert answers(other_world) == answers(world)
    assert other_world.do("ListDeadLetterSourceQueues", QueueUrl="dead")["queueUrls"]
    assert imported(other_world, exported(world)) == []


def test_a_queue_that_was_looked_at_before_gets_its_tags(world: World, other_world: World) -> None:
    world.do("CreateQueue", QueueName="orders", tags={"a": "b"})
    file = exported(world)
    assert imported(other_world, {**file, "queue_details": []}) == []
    assert other_world.do("ListQueueTags", QueueUrl="orders") == {}
    assert imported(other_world, file) == []
    assert other_world.do("ListQueueTags", QueueUrl="orders") == {"Tags": {"a": "b"}}


def test_other_tags_stay(world: World) -> None:
    world.do("CreateQueue", QueueName="orders", tags={"a": "b"})
    file = exported(world)
    world.do("TagQueue", QueueUrl="orders", Tags={"a": "c"})
    (skipped,) = imported(world, file)
    assert "other tags" in skipped["reason"]
    assert world.do("ListQueueTags", QueueUrl="orders") == {"Tags": {"a": "c"}}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"name": "nowhere"}, "no queue"),
        ({"name": "orders", "tags": {"a": 1}}, "not all text"),
        ({"name": "orders", "tags": {"k" * 129: ""}}, "Tag keys"),
        ({"name": "orders", "attributes": {"VisibilityTimeout": "1"}}, "argument of the queue"),
        ({"name": "orders", "attributes": {"ReceiveMessageWaitTimeSeconds": "21"}}, "Invalid value"),
        ({"name": "orders", "created_s": "then"}, "created_s"),
    ],
)
def test_details_that_make_no_sense_are_left_out(world: World, row: dict[str, Any], reason: str) -> None:
    world.broker.queue("orders")
    with world.broker.runtime:
        (skipped,) = take_in(context(world), "queue_details", [row])["skipped"]
    assert reason in skipped["reason"]


def test_secrets_are_not_exported(world: World) -> None:
    with world.broker.runtime:
        world.access.add_user("ada", "")
        world.access.add_key("ada", "AKIAEXAMPLE", "open-sesame")
    assert "sesame" not in json.dumps(exported(world))
