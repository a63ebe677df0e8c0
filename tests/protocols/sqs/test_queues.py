"""Making, changing, listing and deleting queues; tags; dead letters."""

import json
from pathlib import Path

import pytest

from leveret.core.definition_log import Kind
from leveret.protocols.sqs.account import SWEEP_EVERY
from tests.protocols.sqs.world import World, refused


def test_a_new_queue_has_the_defaults(world: World) -> None:
    url = world.create("orders")
    now_s = str(world.clock.now_ms() // 1000)
    assert world.attributes(url) == {
        "QueueArn": "arn:aws:sqs:us-east-1:000000000000:orders",
        "ApproximateNumberOfMessages": "0",
        "ApproximateNumberOfMessagesNotVisible": "0",
        "ApproximateNumberOfMessagesDelayed": "0",
        "CreatedTimestamp": now_s,
        "LastModifiedTimestamp": now_s,
        "DelaySeconds": "0",
        "MaximumMessageSize": "1048576",
        "MessageRetentionPeriod": "345600",
        "ReceiveMessageWaitTimeSeconds": "0",
        "VisibilityTimeout": "30",
        "SqsManagedSseEnabled": "true",
    }


def test_a_new_fifo_queue_has_more(world: World) -> None:
    found = world.attributes(world.create("orders.fifo"))
    assert {name: found[name] for name in ("FifoQueue", "ContentBasedDeduplication", "DeduplicationScope")} == {
        "FifoQueue": "true",
        "ContentBasedDeduplication": "false",
        "DeduplicationScope": "queue",
    }
    assert found["FifoThroughputLimit"] == "perQueue"


def test_attributes_that_are_asked_for(world: World) -> None:
    url = world.create("orders")
    assert world.attributes(url, "VisibilityTimeout", "Policy") == {"VisibilityTimeout": "30"}
    assert world.do("GetQueueAttributes", QueueUrl=url) == {}


def test_counts(world: World) -> None:
    url = world.create("orders")
    for body in "abc":
        world.send(url, body)
    world.send(url, "later", DelaySeconds=9)
    world.receive(url)
    found = world.attributes(url)
    names = (
        "ApproximateNumberOfMessages",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesDelayed",
    )
    assert [found[name] for name in names] == ["2", "1", "1"]


@pytest.mark.parametrize("named", ["orders", "http://elsewhere:1/000000000000/orders", "/queue/orders"])
def test_a_queue_is_named_by_any_url_or_its_name(world: World, named: str) -> None:
    world.create("orders")
    world.send(named, "a")
    assert world.bodies("orders") == ["a"]


def test_creating_it_again_is_the_same_queue_if_nothing_contradicts(world: World) -> None:
    url = world.create("orders", VisibilityTimeout="5", Policy='{"Statement": []}')
    assert world.create("orders") == url
    assert world.create("orders", VisibilityTimeout="5", Policy='{"Statement":[]}') == url
    with refused("QueueNameExists", "attribute VisibilityTimeout"):
        world.create("orders", VisibilityTimeout="6")


def test_attributes_can_be_changed_and_last(tmp_path: Path) -> None:
    world = World(str(tmp_path / "data"))
    try:
        url = world.create("orders")
        world.later(5)
        changes = {"VisibilityTimeout": "5", "ReceiveMessageWaitTimeSeconds": "3", "DelaySeconds": "7"}
        world.do("SetQueueAttributes", QueueUrl=url, Attributes=changes)
        world.do("TagQueue", QueueUrl=url, Tags={"team": "blue"})
        before = world.attributes(url)
        assert changes.items() <= before.items()
        assert int(before["LastModifiedTimestamp"]) == int(before["CreatedTimestamp"]) + 5
        world.restart()
        assert world.attributes(url) == before
        assert world.do("ListQueueTags", QueueUrl=url) == {"Tags": {"team": "blue"}}
    finally:
        world.end()


@pytest.mark.parametrize("protocol", ["json", "query"])
def test_the_type_of_a_queue_can_be_set_to_what_it_is(world: World, protocol: str) -> None:
    url = world.create("orders.fifo")
    request = getattr(world, protocol)
    assert request("SetQueueAttributes", QueueUrl=url, Attributes={"FifoQueue": "true"}).status == 200
    assert world.attributes(url)["FifoQueue"] == "true"


def test_a_key_of_kms_switches_amazons_encryption_off(world: World) -> None:
    found = world.attributes(world.create("orders", KmsMasterKeyId="alias/mine"))
    assert (found["KmsMasterKeyId"], found["SqsManagedSseEnabled"]) == ("alias/mine", "false")


@pytest.mark.parametrize("protocol", ["json", "query"])
@pytest.mark.parametrize("change", [{"KmsMasterKeyId": ""}, {"SqsManagedSseEnabled": "true"}])
def test_what_belongs_to_a_key_of_kms_goes_with_it(world: World, change: dict[str, str], protocol: str) -> None:
    url = world.create("orders", KmsMasterKeyId="alias/mine", KmsDataKeyReusePeriodSeconds="60")
    assert world.attributes(url, "KmsDataKeyReusePeriodSeconds") == {"KmsDataKeyReusePeriodSeconds": "60"}
    assert getattr(world, protocol)("SetQueueAttributes", QueueUrl=url, Attributes=change).status == 200
    assert not {"KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds"} & world.attributes(url).keys()


def test_a_queue_cannot_be_made_again_within_a_minute(world: World) -> None:
    url = world.create("orders")
    world.send(url, "a")
    world.do("DeleteQueue", QueueUrl=url)
    with refused("QueueDoesNotExist"):
        world.receive(url)
    world.later(59)
    with refused("QueueDeletedRecently"):
        world.create("orders")
    world.later(1)
    assert world.bodies(world.create("orders")) == []


def test_names_of_deleted_queues_do_not_pile_up(world: World) -> None:
    deleted, rows = world.account.deleted, world.broker.runtime.core.catalog.of
    with world.broker.runtime:
        for number in range(SWEEP_EVERY - 1):
            deleted.note(f"old{number}")
    world.later(60)
    with world.broker.runtime:
        deleted.note("new")
        assert [row["name"] for row in rows(Kind.DELETED_QUEUE)] == ["new"]


def test_lists_have_prefixes_and_pages(world: World) -> None:
    urls = [world.create(name) for name in ("a-1", "a-2", "a-3", "b-1")]
    assert world.do("ListQueues") == {"QueueUrls": urls}
    assert world.do("ListQueues", QueueNamePrefix="b") == {"QueueUrls": urls[3:]}
    assert world.do("ListQueues", QueueNamePrefix="c") == {}
    first = world.do("ListQueues", MaxResults=3)
    assert first["QueueUrls"] == urls[:3]
    assert world.do("ListQueues", MaxResults=3, NextToken=first["NextToken"]) == {"QueueUrls": urls[3:]}
    assert world.do("GetQueueUrl", QueueName="a-2") == {"QueueUrl": urls[1]}


def test_tags(world: World) -> None:
    url = world.do("CreateQueue", QueueName="orders", tags={"a": "1"})["QueueUrl"]
    world.do("TagQueue", QueueUrl=url, Tags={"b": "2", "c": "3"})
    world.do("UntagQueue", QueueUrl=url, TagKeys=["a", "c"])
    assert world.do("ListQueueTags", QueueUrl=url) == {"Tags": {"b": "2"}}
    world.do("UntagQueue", QueueUrl=url, TagKeys=["b"])
    assert world.do("ListQueueTags", QueueUrl=url) == {}


# Dead letters


def redriven(world: World, count: object = 1) -> tuple[str, str]:
    """A queue and the one for its dead letters."""
    dead = world.create("dead")
    policy = {"deadLetterTargetArn": world.arn(dead), "maxReceiveCount": count}
    return world.create("orders", VisibilityTimeout="1", RedrivePolicy=policy), dead


@pytest.mark.parametrize("count", [2, "2"])
def test_a_message_that_was_received_too_often_goes_to_the_dead_letters(world: World, count: object) -> None:
    orders, dead = redriven(world, count)
    sent = world.send(orders, "a", MessageAttributes={"n": {"DataType": "Number", "StringValue": "1.0"}})
    for _ in range(2):
        assert world.bodies(orders) == ["a"]
        world.later(1)
    assert world.bodies(orders) == []
    (letter,) = world.receive(dead, AttributeNames=["All"], MessageAttributeNames=["All"])
    assert (letter["MessageId"], letter["Body"]) == (sent["MessageId"], "a")
    assert letter["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert letter["Attributes"]["ApproximateReceiveCount"] == "3"
    assert letter["Attributes"]["DeadLetterQueueSourceArn"] == world.arn(orders)


@pytest.mark.parametrize("count", [2, "2"])
def test_a_policy_is_told_as_it_was_given(world: World, count: object) -> None:
    orders, _ = redriven(world, count)
    assert json.loads(world.attributes(orders)["RedrivePolicy"])["maxReceiveCount"] == count


def test_a_policy_can_be_taken_away(world: World) -> None:
    orders, dead = redriven(world)
    assert world.do("ListDeadLetterSourceQueues", QueueUrl=dead) == {"queueUrls": [orders]}
    world.do("SetQueueAttributes", QueueUrl=orders, Attributes={"RedrivePolicy": ""})
    assert "RedrivePolicy" not in world.attributes(orders)
    assert world.do("ListDeadLetterSourceQueues", QueueUrl=dead) == {"queueUrls": []}
    world.send(orders, "a")
    for _ in range(3):
        assert world.bodies(orders) == ["a"]
        world.later(1)


def test_messages_wait_when_the_queue_for_dead_letters_is_gone(world: World) -> None:
    orders, dead = redriven(world)
    world.do("DeleteQueue", QueueUrl=dead)
    world.send(orders, "a")
    for _ in range(3):
        assert world.bodies(orders) == ["a"]
        world.later(60)
    assert json.loads(world.attributes(orders)["RedrivePolicy"])["maxReceiveCount"] == 1
    world.create("dead")
    assert world.bodies(orders) == []
    assert world.bodies(dead) == ["a"]


def test_a_queue_chooses_whose_dead_letters_it_takes(world: World) -> None:
    allow = {"redrivePermission": "byQueue", "sourceQueueArns": [world.settings.arn("friend")]}
    dead = world.create("dead", RedriveAllowPolicy=allow)
    policy = {"deadLetterTargetArn": world.arn(dead), "maxReceiveCount": 1}
    world.create("friend", RedrivePolicy=policy)
    with refused("InvalidParameterValueException", "does not allow this queue"):
        world.create("stranger", RedrivePolicy=policy)


def test_a_policy_of_another_region_is_kept_and_has_no_effect(tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    world = World(path)
    redriven(world)
    world.end()
    moved = World(path, region="eu-west-1")
    try:
        assert "us-east-1" in moved.attributes("orders")["RedrivePolicy"]
        assert moved.do("ListDeadLetterSourceQueues", QueueUrl="dead") == {"queueUrls": []}
        moved.do("DeleteQueue", QueueUrl="dead")
    finally:
        moved.end()


def test_dead_letters_are_found_again_after_a_restart(tmp_path: Path) -> None:
    world = World(str(tmp_path / "data"))
    try:
        orders, dead = redriven(world)
        world.restart()
        world.do("DeleteQueue", QueueUrl=dead)
        world.send(orders, "a")
        for _ in range(2):
            assert world.bodies(orders) == ["a"]
            world.later(1)
    finally:
        world.end()
