"""Sending, receiving, deleting: what standard queues promise."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from leveret.core.consumer import Consumer
from leveret.core.errors import QueueNotFound
from leveret.protocols.http.async_broker import ANSWER_BYTES_MAX
from tests.protocols.sqs.world import World, json_request, refused

RED = {"color": {"DataType": "String", "StringValue": "red"}}


def test_a_message_is_sent_received_and_deleted(world: World) -> None:
    url = world.create("orders")
    sent = world.send(url, "héllo", MessageAttributes=RED)
    assert sent["MD5OfMessageBody"] == hashlib.md5("héllo".encode()).hexdigest()
    (message,) = world.receive(url, MessageAttributeNames=["All"])
    assert (message["MessageId"], message["Body"]) == (sent["MessageId"], "héllo")
    assert message["MD5OfBody"] == sent["MD5OfMessageBody"]
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert message["MessageAttributes"] == RED
    world.delete(url, message)
    world.later(60)
    assert world.receive(url) == []


def test_one_answer_has_only_so_many_bytes(world: World) -> None:
    world.broker.queue("orders").send_many(["x" * (ANSWER_BYTES_MAX // 2 - 1_000), "y", "z" * ANSWER_BYTES_MAX, "w"])
    received = [[each["Body"][0] for each in world.receive("orders", 10)] for _ in range(3)]
    assert received == [["x", "y"], ["z"], ["w"]]


def test_the_digest_of_attributes_is_amazons(world: World) -> None:
    url = world.create("orders")
    attributes = {
        "timestamp": {"DataType": "Number", "StringValue": "1493147359900"},
    }
    # A pair that is known from Amazon's documentation of the algorithm.
    assert world.send(url, "a", MessageAttributes=attributes)["MD5OfMessageAttributes"] == (
        "235c5c510d26fb653d073faed50ae77c"
    )


def test_the_trace_header_has_a_digest_of_its_own_and_counts_for_nothing(world: World) -> None:
    url = world.create("orders", MaximumMessageSize="1024")
    trace = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}}
    sent = world.send(url, "x" * 1_024, MessageSystemAttributes=trace)
    assert len(sent["MD5OfMessageSystemAttributes"]) == 32
    (message,) = world.receive(url, AttributeNames=["AWSTraceHeader"])
    assert message["Attributes"] == {"AWSTraceHeader": "Root=1-5759e988-bd862e3fe1be46a994272793"}


def test_system_attributes(world: World) -> None:
    url = world.create("orders", VisibilityTimeout="10")
    sent_ms = world.clock.now_ms()
    world.send(url, "a", MessageGroupId="tenant")
    world.later(1)
    world.receive(url)
    world.later(10)
    (message,) = world.receive(url, AttributeNames=["All"])
    assert message["Attributes"] == {
        "SenderId": "000000000000",
        "SentTimestamp": str(sent_ms),
        "ApproximateReceiveCount": "2",
        "ApproximateFirstReceiveTimestamp": str(sent_ms + 1_000),
        "MessageGroupId": "tenant",
    }


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ([], set()),
        (["All"], {"color", "shape.a", "shape.b"}),
        ([".*"], {"color", "shape.a", "shape.b"}),
        (["*"], {"color", "shape.a", "shape.b"}),
        (["color"], {"color"}),
        (["shape.*"], {"shape.a", "shape.b"}),
        (["nothing"], set()),
    ],
)
def test_receivers_choose_attributes(world: World, asked: list[str], told: set[str]) -> None:
    url = world.create("orders")
    value = {"DataType": "String", "StringValue": "x"}
    world.send(url, "a", MessageAttributes={"color": value, "shape.a": value, "shape.b": value})
    (message,) = world.receive(url, MessageAttributeNames=asked)
    assert set(message.get("MessageAttributes", {})) == told
    assert ("MD5OfMessageAttributes" in message) == bool(told)


@pytest.mark.parametrize("protocol", ["json", "query"])
def test_names_of_attributes_have_letters_of_any_language(world: World, protocol: str) -> None:
    url = world.create("orders")
    name = "attr.1\u00f8\u00df\u00e4"
    named = {name: {"DataType": "String", "StringValue": "x"}, "\u00e9" * 200: RED["color"]}
    sent = getattr(world, protocol)("SendMessage", QueueUrl=url, MessageBody="a", MessageAttributes=named)
    assert sent.status == 200
    (message,) = world.receive(url, MessageAttributeNames=["All"])
    assert message["MessageAttributes"] == named


TRACED = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


@pytest.mark.parametrize("protocol", ["json", "query"])
@pytest.mark.parametrize("batch", [False, True])
def test_the_trace_of_a_request_is_that_of_its_messages(world: World, protocol: str, batch: bool) -> None:
    url = world.create("orders")
    what: dict[str, Any] = {"Entries": [{"Id": "a", "MessageBody": "a"}]} if batch else {"MessageBody": "a"}
    action = "SendMessageBatch" if batch else "SendMessage"
    sent = getattr(world, protocol)(action, QueueUrl=url, headers={b"x-amzn-trace-id": TRACED.encode()}, **what)
    assert sent.status == 200
    assert b"MD5OfMessageSystemAttributes" not in sent.body
    (message,) = world.receive(url, AttributeNames=["AWSTraceHeader"])
    assert message["Attributes"] == {"AWSTraceHeader": TRACED}


@pytest.mark.parametrize("header", [b"", b"no trace", b"Root=1-\xff", b"Root=" + b"1" * 2_000])
def test_a_header_that_names_no_trace_is_ignored(world: World, header: bytes) -> None:
    url = world.create("orders")
    assert world.json("SendMessage", QueueUrl=url, MessageBody="a", headers={b"x-amzn-trace-id": header}).status == 200
    (message,) = world.receive(url, AttributeNames=["AWSTraceHeader"])
    assert "Attributes" not in message


def test_what_a_sender_says_of_the_trace_goes_before_the_header(world: World) -> None:
    url = world.create("orders")
    trace = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}}
    world.json(
        "SendMessage",
        QueueUrl=url,
        MessageBody="a",
        MessageSystemAttributes=trace,
        headers={b"x-amzn-trace-id": TRACED.encode()},
    )
    (message,) = world.receive(url, AttributeNames=["AWSTraceHeader"])
    assert message["Attributes"]["AWSTraceHeader"] == trace["AWSTraceHeader"]["StringValue"]


def test_an_empty_queue_gives_no_key_at_all(world: World) -> None:
    assert world.do("ReceiveMessage", QueueUrl=world.create("orders")) == {}


def test_a_message_comes_back_after_its_visibility_timeout(world: World) -> None:
    url = world.create("orders")
    world.send(url, "a")
    assert world.bodies(url, VisibilityTimeout=5) == ["a"]
    assert world.bodies(url) == []
    world.later(5)
    assert world.bodies(url) == ["a"]


def test_the_delay_of_a_message_goes_before_that_of_its_queue(world: World) -> None:
    url = world.create("orders", DelaySeconds="10")
    world.send(url, "queue")
    world.send(url, "now", DelaySeconds=0)
    world.send(url, "message", DelaySeconds=5)
    assert world.bodies(url) == ["now"]
    assert world.attributes(url)["ApproximateNumberOfMessagesDelayed"] == "2"
    world.later(5)
    assert world.bodies(url) == ["message"]
    world.later(5)
    assert world.bodies(url) == ["queue"]


def test_messages_are_kept_for_the_retention_period(world: World) -> None:
    url = world.create("orders", MessageRetentionPeriod="60")
    world.send(url, "a")
    world.later(60)
    assert world.bodies(url) == []


def test_sizes_are_counted_in_bytes_with_attributes(world: World) -> None:
    url = world.create("orders", MaximumMessageSize="1024")
    world.send(url, "é" * 512)
    with refused("InvalidParameterValueException", "Message must be shorter than 1024 bytes."):
        world.send(url, "é" * 512 + "x")


def test_the_largest_message(world: World) -> None:
    url = world.create("orders")
    world.send(url, "x" * 1_048_576)
    assert len(world.bodies(url)[0]) == 1_048_576


# Receipts


def test_a_message_can_be_deleted_after_its_visibility_timeout(world: World) -> None:
    url = world.create("orders", VisibilityTimeout="1")
    world.send(url, "a")
    (message,) = world.receive(url)
    world.later(2)
    world.delete(url, message)
    assert world.bodies(url) == []


def test_deleting_twice_is_no_error(world: World) -> None:
    url = world.create("orders")
    world.send(url, "a")
    (message,) = world.receive(url)
    world.delete(url, message)
    world.delete(url, message)


def test_an_old_handle_does_not_delete_what_somebody_else_has(world: World) -> None:
    url = world.create("orders", VisibilityTimeout="1")
    world.send(url, "a")
    (first,) = world.receive(url)
    world.later(1)
    world.receive(url)
    world.delete(url, first)
    world.later(1)
    assert world.bodies(url) == ["a"]


def test_a_handle_of_another_queue(world: World) -> None:
    url, other = world.create("orders"), world.create("others")
    world.send(url, "a")
    (message,) = world.receive(url)
    with refused("ReceiptHandleIsInvalid"):
        world.delete(other, message)


def change(world: World, url: str, message: dict[str, Any], seconds: int) -> None:
    world.do("ChangeMessageVisibility", QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=seconds)


def test_visibility_can_be_changed(world: World) -> None:
    url = world.create("orders", VisibilityTimeout="10")
    world.send(url, "a")
    (message,) = world.receive(url)
    change(world, url, message, 100)
    world.later(99)
    assert world.bodies(url) == []
    change(world, url, message, 0)
    assert world.bodies(url) == ["a"]


def test_visibility_of_a_deleted_message(world: World) -> None:
    url = world.create("orders")
    world.send(url, "a")
    (message,) = world.receive(url)
    world.delete(url, message)
    text = (
        f"Value {message['ReceiptHandle']} for parameter ReceiptHandle is invalid. Reason: Message does not exist or "
        "is not available for visibility timeout change."
    )
    with refused("InvalidParameterValueException", text):
        change(world, url, message, 10)


def test_visibility_of_a_message_that_came_back(world: World) -> None:
    url = world.create("orders", VisibilityTimeout="1")
    world.send(url, "a")
    (message,) = world.receive(url)
    world.later(1)
    change(world, url, message, 10)
    assert world.bodies(url) == []
    world.later(10)
    assert world.bodies(url) == ["a"]


@pytest.mark.parametrize("seconds", [100, 0])
def test_an_older_handle_changes_the_visibility_of_a_standard_queue(world: World, seconds: int) -> None:
    url = world.create("orders", VisibilityTimeout="1")
    world.send(url, "a")
    (first,) = world.receive(url)
    world.later(1)
    assert world.bodies(url, VisibilityTimeout=10) == ["a"]
    change(world, url, first, seconds)
    assert world.bodies(url) == ([] if seconds else ["a"])
    world.later(10)
    assert world.bodies(url) == ([] if seconds else ["a"])


def test_an_older_handle_does_not_touch_what_a_consumer_has(world: World) -> None:
    url = world.create("orders", VisibilityTimeout="1")
    world.send(url, "a")
    (first,) = world.receive(url)
    world.later(1)
    with world.broker.runtime:
        queue = world.account.queues.get("orders").core
        (held,) = queue.take(1, None, Consumer("tag"))
        lease = held.lease
    change(world, url, first, 0)
    with world.broker.runtime:
        assert queue.find_lease(held.seq, lease) is held


def test_nobody_holds_a_message_for_more_than_twelve_hours(world: World) -> None:
    url = world.create("orders")
    world.send(url, "a")
    (message,) = world.receive(url, VisibilityTimeout=43_200)
    world.later(3_600)
    change(world, url, message, 39_600)
    with refused("InvalidParameterValueException", "Total VisibilityTimeout for the message is beyond the limit"):
        change(world, url, message, 39_601)


# Batches


def test_entries_of_a_batch_have_outcomes_of_their_own(world: World) -> None:
    url = world.create("orders", MaximumMessageSize="1024")
    entries = [
        {"Id": "good", "MessageBody": "a", "MessageAttributes": RED},
        {"Id": "large", "MessageBody": "x" * 2_000},
        {"Id": "empty"},
    ]
    result = world.do("SendMessageBatch", QueueUrl=url, Entries=entries)
    assert [each["Id"] for each in result["Successful"]] == ["good"]
    assert result["Failed"] == [
        {
            "Id": "large",
            "Code": "InvalidParameterValue",
            "Message": "One or more parameters cannot be validated. Reason: Message must be shorter than 1024 bytes.",
            "SenderFault": True,
        },
        {
            "Id": "empty",
            "Code": "InvalidParameterValue",
            "Message": "The request must contain the parameter MessageBody.",
            "SenderFault": True,
        },
    ]


def test_batches_of_deletions_and_visibilities(world: World) -> None:
    url = world.create("orders")
    world.do("SendMessageBatch", QueueUrl=url, Entries=[{"Id": each, "MessageBody": each} for each in "abc"])
    first, second, third = world.receive(url, 10)
    entries = [
        {"Id": "first", "ReceiptHandle": first["ReceiptHandle"]},
        {"Id": "wrong", "ReceiptHandle": "garbage"},
    ]
    result = world.do("DeleteMessageBatch", QueueUrl=url, Entries=entries)
    assert result["Successful"] == [{"Id": "first"}]
    assert [(each["Id"], each["Code"]) for each in result["Failed"]] == [("wrong", "ReceiptHandleIsInvalid")]
    back = [
        {"Id": str(number), "ReceiptHandle": each["ReceiptHandle"], "VisibilityTimeout": 0}
        for number, each in enumerate((second, third))
    ]
    assert world.do("ChangeMessageVisibilityBatch", QueueUrl=url, Entries=back) == {
        "Successful": [{"Id": "0"}, {"Id": "1"}]
    }
    assert world.bodies(url) == ["b", "c"]


# Waiting


def receive_and(world: World, url: str, action: str, **parameters: Any) -> list[str]:
    """Wait for a message while something else is asked for."""
    waiting = json_request("ReceiveMessage", {"QueueUrl": url, "WaitTimeSeconds": 20})
    received, _ = world.handle(waiting, json_request(action, parameters))
    return [message["Body"] for message in received.json.get("Messages", [])]


def test_a_send_wakes_a_long_poll(world: World) -> None:
    url = world.create("orders")
    assert receive_and(world, url, "SendMessage", QueueUrl=url, MessageBody="a") == ["a"]


def test_giving_back_wakes_a_long_poll(world: World) -> None:
    url = world.create("orders")
    world.send(url, "a")
    (message,) = world.receive(url)
    back = {"QueueUrl": url, "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0}
    assert receive_and(world, url, "ChangeMessageVisibility", **back) == ["a"]


def test_a_deleted_queue_ends_a_long_poll(world: World) -> None:
    url = world.create("orders")
    waiting = json_request("ReceiveMessage", {"QueueUrl": url, "WaitTimeSeconds": 20})
    with pytest.raises(QueueNotFound):
        world.handle(waiting, json_request("DeleteQueue", {"QueueUrl": url}))


@pytest.mark.parametrize("what", ["delay", "lease"])
def test_the_end_of_a_delay_or_lease_wakes_a_long_poll(world: World, what: str) -> None:
    url = world.create("orders")
    if what == "delay":
        world.send(url, "a", DelaySeconds=5)
    else:
        world.send(url, "a")
        world.receive(url, VisibilityTimeout=5)
    assert world.poll_while(url, lambda: world.clock.advance(5)) == ["a"]


# Limits


def test_messages_in_flight_are_limited() -> None:
    world = World(in_flight_max=2)
    try:
        url, fifo = world.create("orders"), world.create("orders.fifo", ContentBasedDeduplication="true")
        for number in range(3):
            world.send(url, str(number))
            world.send(fifo, str(number), MessageGroupId=str(number))
        world.receive(url, 2)
        with refused("OverLimit"):
            world.receive(url)
        assert world.receive(url, WaitTimeSeconds=1) == []
        world.receive(fifo, 2)
        assert world.receive(fifo) == []
    finally:
        world.end()


def test_nobody_sends_while_the_server_is_short_of_something(world: World) -> None:
    url = world.create("orders")
    world.send(url, "a")
    world.account.alarm = "memory"
    with refused("ServiceUnavailable", "The server is short of memory: try again later."):
        world.send(url, "b")
    assert world.json("SendMessageBatch", QueueUrl=url, Entries=[{"Id": "a", "MessageBody": "b"}]).status == 503
    assert world.bodies(url) == ["a"]


def test_a_purge_takes_everything_and_is_made_once_a_minute(world: World) -> None:
    url = world.create("orders")
    world.send(url, "held")
    (held,) = world.receive(url)
    world.send(url, "ready")
    world.send(url, "delayed", DelaySeconds=1)
    world.do("PurgeQueue", QueueUrl=url)
    world.later(59)
    assert world.bodies(url) == []
    world.delete(url, held)
    with refused("PurgeQueueInProgress"):
        world.do("PurgeQueue", QueueUrl=url)
    world.later(1)
    world.do("PurgeQueue", QueueUrl=url)


def test_the_guards_can_be_switched_off() -> None:
    world = World(guards=False)
    try:
        url = world.create("orders")
        for _ in range(2):
            world.do("PurgeQueue", QueueUrl=url)
        world.do("DeleteQueue", QueueUrl=url)
        world.create("orders")
    finally:
        world.end()


def test_a_handle_from_before_a_restart_deletes_what_was_not_received_since(tmp_path: Path) -> None:
    world = World(str(tmp_path))
    url = world.create("orders")
    for body in "12":
        world.send(url, body)
    one, two = world.receive(url, 2)
    world.clock.advance(1)
    world.restart()
    world.delete(url, one)
    assert world.bodies(url) == [two["Body"]]
    world.end()
