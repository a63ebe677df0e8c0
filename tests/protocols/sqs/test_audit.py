"""What SQS changes and refuses is in the audit log."""

from collections.abc import Iterator

import pytest

from leveret.observability.audit import Audit
from leveret.protocols.sqs.service import ACTIONS, ANONYMOUS, AUDITED, QUEUE_ACTIONS, UNSIGNED
from tests.protocols.sqs.world import World, json_request

ASKING = {"GetQueueAttributes", "GetQueueUrl", "ListDeadLetterSourceQueues", "ListMessageMoveTasks", "ListQueueTags"}
ASKING |= {"ListQueues"}
MESSAGES = {"ChangeMessageVisibility", "ChangeMessageVisibilityBatch", "DeleteMessage", "DeleteMessageBatch"}
MESSAGES |= {"ReceiveMessage", "SendMessage", "SendMessageBatch"}


@pytest.fixture
def world() -> Iterator[World]:
    made = World(guards=False)
    made.service.audit = Audit(made.clock)
    yield made
    made.end()


def rows(world: World) -> list[tuple[str, str]]:
    """What was done, and about which queue; the oldest row first."""
    assert world.service.audit is not None
    return [(row["act"], row.get("queue", "")) for row in reversed(world.service.audit.recent())]


def test_every_action_that_changes_something_is_noted() -> None:
    assert set(AUDITED) == {*ACTIONS, *QUEUE_ACTIONS} - ASKING - MESSAGES


def check_changes(world: World) -> None:
    """Make every change; each is noted once, with what it is about."""
    assert world.service.audit is not None
    dead = world.json("CreateQueue", QueueName="dead").json["QueueUrl"]
    arn = world.json("GetQueueAttributes", QueueUrl=dead, AttributeNames=["QueueArn"]).json["Attributes"]["QueueArn"]
    redrive = f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": 3}}'
    url = world.json("CreateQueue", QueueName="orders", Attributes={"RedrivePolicy": redrive}).json["QueueUrl"]
    world.json("CreateQueue", QueueName="orders")  # it is there
    world.json("TagQueue", QueueUrl=url, Tags={"team": "shop"})
    world.json("UntagQueue", QueueUrl=url, TagKeys=["team"])
    world.json("SetQueueAttributes", QueueUrl=url, Attributes={"VisibilityTimeout": "5"})
    world.json("AddPermission", QueueUrl=url, Label="all", AWSAccountIds=["*"], Actions=["SendMessage"])
    world.json("RemovePermission", QueueUrl=url, Label="all")
    world.json("SendMessage", QueueUrl=url, MessageBody="x")
    world.json("PurgeQueue", QueueUrl=url)
    world.json("StartMessageMoveTask", SourceArn=arn)
    world.json("DeleteQueue", QueueUrl=url)
    assert rows(world) == [
        ("CreateQueue", "dead"),
        ("CreateQueue", "orders"),
        ("TagQueue", "orders"),
        ("UntagQueue", "orders"),
        ("SetQueueAttributes", "orders"),
        ("AddPermission", "orders"),
        ("RemovePermission", "orders"),
        ("PurgeQueue", "orders"),
        ("StartMessageMoveTask", ""),
        ("DeleteQueue", "orders"),
    ]
    recent = world.service.audit.recent()
    assert {row["by"] for row in recent} == {ANONYMOUS}
    assert {row["kind"] for row in recent} == {"clients"}
    assert recent[1]["SourceArn"] == arn
    assert recent[4]["Label"] == "all"
    assert "maxReceiveCount" in recent[8]["Attributes"]


def test_changes_are_noted_with_what_they_are_about(world: World) -> None:
    check_changes(world)


def test_refused_changes_are_counted(world: World) -> None:
    assert world.service.audit is not None
    for _ in range(5):
        assert world.json("DeleteQueue", QueueUrl="http://localhost/000000000000/nowhere").status == 400
    (row,) = world.service.audit.recent()
    assert (row["kind"], row["act"], row["queue"]) == ("refusals", "DeleteQueue", "nowhere")


def test_refused_signatures_are_failed_logins() -> None:
    world = World(auth=True)
    try:
        audit = world.service.audit = Audit(world.clock)
        assert world.json("ListQueues").status == 403
        signed = json_request("ListQueues", {})
        signed.headers[b"authorization"] = (
            b"AWS4-HMAC-SHA256 Credential=AKIAUNKNOWN/20260101/us-east-1/sqs/aws4_request, "
            b"SignedHeaders=host, Signature=" + b"0" * 64
        )
        assert world.handle(signed)[0].status == 403
        told = [(row["by"], row["act"], row["protocol"], row["kind"]) for row in audit.recent()]
        assert told == [("AKIAUNKNOWN", "log in", "SQS", "refusals"), (UNSIGNED, "log in", "SQS", "refusals")]
    finally:
        world.end()
