"""The same queues by AMQP and by SQS: what one sends the other receives, with everything that was said about it."""

from collections.abc import Iterator
from typing import Any

import pika
import pytest

from tests.protocols.sqs.server import Server
from tests.protocols.sqs.world import World


@pytest.fixture
def sqs(server: Server) -> Any:
    client = server.client()
    yield client
    client.close()


@pytest.fixture
def channel(server: Server) -> Iterator[Any]:
    connection = pika.BlockingConnection(pika.URLParameters(server.process.url))
    opened = connection.channel()
    opened.confirm_delivery()
    yield opened
    connection.close()


def test_from_sqs_to_amqp(sqs: Any, channel: Any, name: str) -> None:
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    sqs.send_message(
        QueueUrl=url,
        MessageBody="héllo",
        MessageGroupId="tenant",
        MessageAttributes={
            "text": {"DataType": "String", "StringValue": "red"},
            "whole": {"DataType": "Number", "StringValue": "7"},
            "exact": {"DataType": "Number", "StringValue": "1.50"},
            "raw": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
            "amqp.correlation_id": {"DataType": "String", "StringValue": "c-1"},
            "amqp.priority": {"DataType": "Number", "StringValue": "3"},
        },
    )
    method, properties, body = channel.basic_get(name)
    assert body == "héllo".encode()
    assert properties.headers == {
        "text": "red",
        "whole": 7,
        "exact": "1.50",
        "raw": b"\x00\xff",
        "x-group-id": "tenant",
        "x-sqs-types": {"exact": "Number"},
    }
    assert (properties.content_type, properties.delivery_mode) == ("text/plain; charset=utf-8", 2)
    assert (properties.correlation_id, properties.priority, properties.user_id) == ("c-1", 3, "guest")
    channel.basic_ack(method.delivery_tag)


def test_from_amqp_to_sqs(sqs: Any, channel: Any, name: str) -> None:
    channel.queue_declare(name, durable=True)
    properties = pika.BasicProperties(
        content_type="application/json",
        correlation_id="c-1",
        message_id="m-1",
        priority=3,
        user_id="guest",
        headers={"text": "red", "whole": 7, "raw": b"\x00\xff", "flag": True, "list": [1, "a"], "x-group-id": "tenant"},
    )
    channel.basic_publish("", name, b'{"a":1}', properties)
    url = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    (message,) = sqs.receive_message(
        QueueUrl=url, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"], WaitTimeSeconds=5
    )["Messages"]
    assert message["Body"] == '{"a":1}'
    told = {
        key: value.get("StringValue", value.get("BinaryValue")) for key, value in message["MessageAttributes"].items()
    }
    assert told == {
        "text": "red",
        "whole": "7",
        "raw": b"\x00\xff",
        "flag": "true",
        "list": '[1,"a"]',
        "amqp.content_type": "application/json",
        "amqp.correlation_id": "c-1",
        "amqp.message_id": "m-1",
        "amqp.priority": "3",
    }
    assert (message["Attributes"]["SenderId"], message["Attributes"]["MessageGroupId"]) == ("guest", "tenant")
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert channel.queue_declare(name, passive=True).method.message_count == 0


def test_there_and_back_nothing_is_lost(sqs: Any, channel: Any, name: str) -> None:
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    attributes = {
        "String": {"DataType": "String", "StringValue": "1"},
        "Number": {"DataType": "Number", "StringValue": "1e3"},
        "Custom": {"DataType": "Number.euro", "StringValue": "5"},
        "Binary": {"DataType": "Binary.gif", "BinaryValue": b"GIF"},
        "x-death": {"DataType": "String", "StringValue": "not really"},
        "n" * 256: {"DataType": "String", "StringValue": "long"},
    }
    sent = sqs.send_message(QueueUrl=url, MessageBody="a", MessageAttributes=attributes)
    _, properties, body = channel.basic_get(name, auto_ack=True)
    channel.basic_publish("", name, body, properties)
    (message,) = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"])["Messages"]
    assert message["MessageAttributes"] == attributes
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]


def test_bytes_that_are_no_text_are_encoded(world: World) -> None:
    queue = world.broker.queue("orders")
    queue.send(b"\xff\x00")
    (message,) = world.receive("orders", MessageAttributeNames=["leveret.*"])
    assert message["Body"] == "/wA="
    assert message["MessageAttributes"] == {"leveret.body_encoding": {"StringValue": "base64", "DataType": "String"}}


def test_a_queue_that_amqp_declared_has_attributes(world: World) -> None:
    with world.broker.runtime as core:
        core.declare_queue("/", "dead", {})
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-max-receive-count": 4}
        core.declare_queue("/", "a b", arguments)
        core.declare_queue("/", "mine", {}, owner=object())
    found = world.attributes("a b")
    assert found["VisibilityTimeout"] == "30"
    assert '"maxReceiveCount": 4' in found["RedrivePolicy"]
    urls = world.do("ListQueues")["QueueUrls"]
    assert urls == ["http://sqs.test/000000000000/a%20b", "http://sqs.test/000000000000/dead"]
    assert world.do("ListDeadLetterSourceQueues", QueueUrl="dead") == {"queueUrls": urls[:1]}
    world.send(urls[0], "a")
    assert world.bodies(urls[0]) == ["a"]


@pytest.mark.parametrize("headers", [{"x-sqs-types": 5, "a": "b"}, {"x-sqs-attributes": [5, {"name": 1}], "a": "b"}])
def test_headers_of_ours_that_somebody_else_wrote(world: World, headers: dict[str, Any]) -> None:
    world.broker.queue("orders").send("a", headers=headers)
    (message,) = world.receive("orders", MessageAttributeNames=["All"])
    assert message["MessageAttributes"] == {"a": {"StringValue": "b", "DataType": "String"}}
