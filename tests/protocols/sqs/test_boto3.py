"""boto3 against a real server, with signatures: client, resource, paginators, and what they raise."""

import json
import threading
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.protocols.sqs.server import Server
from tests.waiting import wait_until


@pytest.fixture
def sqs(server: Server) -> Any:
    client = server.client()
    yield client
    client.close()


def test_the_life_of_a_message(sqs: Any, name: str) -> None:
    url = sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "60"}, tags={"team": "blue"})["QueueUrl"]
    assert sqs.get_queue_url(QueueName=name)["QueueUrl"] == url
    attributes = {
        "text": {"DataType": "String", "StringValue": "grün"},
        "number": {"DataType": "Number", "StringValue": "1.50"},
        "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
        "custom": {"DataType": "String.color", "StringValue": "red"},
    }
    # boto3 compares the digests of body and attributes itself.
    sent = sqs.send_message(QueueUrl=url, MessageBody="héllo\n", MessageAttributes=attributes)
    (message,) = sqs.receive_message(
        QueueUrl=url, MessageAttributeNames=["All"], MessageSystemAttributeNames=["All"], WaitTimeSeconds=5
    )["Messages"]
    assert (message["MessageId"], message["Body"]) == (sent["MessageId"], "héllo\n")
    assert message["MessageAttributes"] == attributes
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert message["Attributes"]["SenderId"] == "guest"
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    (again,) = sqs.receive_message(QueueUrl=url)["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=again["ReceiptHandle"])
    assert (
        sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]["ApproximateNumberOfMessages"]
        == "0"
    )
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "blue"}
    sqs.delete_queue(QueueUrl=url)
    with pytest.raises(sqs.exceptions.QueueDoesNotExist) as refused:
        sqs.receive_message(QueueUrl=url)
    assert refused.value.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"


def test_fifo_batches(sqs: Any, name: str) -> None:
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    url = sqs.create_queue(QueueName=f"{name}.fifo", Attributes=attributes)["QueueUrl"]
    entries = [{"Id": str(n), "MessageBody": f"m{n}", "MessageGroupId": "g"} for n in range(10)]
    sent = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert len(sent["Successful"]) == 10
    assert (
        sqs.send_message_batch(QueueUrl=url, Entries=entries)["Successful"][0]["MessageId"]
        == (sent["Successful"][0]["MessageId"])
    )
    got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert [message["Body"] for message in got] == [entry["MessageBody"] for entry in entries]
    handles = [{"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]} for n, message in enumerate(got)]
    assert "Failed" not in sqs.delete_message_batch(QueueUrl=url, Entries=handles)


def test_the_largest_message_is_kept_outside_of_the_log(sqs: Any, name: str) -> None:
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="é" * 524_288)
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    assert message["Body"] == "é" * 524_288
    entries = [{"Id": each, "MessageBody": each * 300_000} for each in "ab"]
    assert len(sqs.send_message_batch(QueueUrl=url, Entries=entries)["Successful"]) == 2


def test_a_long_poll_is_woken(server: Server, sqs: Any, name: str) -> None:
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    other = server.client()
    timer = threading.Timer(0.3, lambda: other.send_message(QueueUrl=url, MessageBody="a"))
    timer.start()
    got = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)
    timer.join()
    other.close()
    assert got["Messages"][0]["Body"] == "a"


def test_dead_letters_and_their_redrive(sqs: Any, name: str) -> None:
    dead = sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    url = sqs.create_queue(QueueName=name, Attributes={"RedrivePolicy": policy})["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="a")
    sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)
    (letter,) = sqs.receive_message(QueueUrl=dead, WaitTimeSeconds=20, VisibilityTimeout=0)["Messages"]
    assert letter["Body"] == "a"
    (source,) = sqs.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"]
    assert source == url
    sqs.start_message_move_task(SourceArn=arn)
    assert sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20)["Messages"][0]["Body"] == "a"
    # It is there before it is durable, and counted after that.
    wait_until(
        lambda: sqs.list_message_move_tasks(SourceArn=arn)["Results"][0]["ApproximateNumberOfMessagesMoved"] == 1
    )


def test_the_resource(server: Server, name: str) -> None:
    resource = boto3.resource("sqs", **server.options())
    queue = resource.create_queue(QueueName=name)
    queue.send_messages(Entries=[{"Id": str(n), "MessageBody": str(n)} for n in range(3)])
    got = queue.receive_messages(MaxNumberOfMessages=10, WaitTimeSeconds=5, AttributeNames=["All"])
    assert sorted(message.body for message in got) == ["0", "1", "2"]
    for message in got:
        message.delete()
    queue.reload()
    assert queue.attributes["ApproximateNumberOfMessagesNotVisible"] == "0"
    assert name in [each.url.rpartition("/")[2] for each in resource.queues.filter(QueueNamePrefix=name)]
    queue.purge()
    queue.delete()
    resource.meta.client.close()


def test_pages_of_queues(sqs: Any, name: str) -> None:
    for number in range(5):
        sqs.create_queue(QueueName=f"{name}-{number}")
    pages = sqs.get_paginator("list_queues").paginate(QueueNamePrefix=name, PaginationConfig={"PageSize": 2})
    assert [len(page["QueueUrls"]) for page in pages] == [2, 2, 1]


def test_a_wrong_secret(server: Server) -> None:
    client = server.client(aws_secret_access_key="guess")
    with pytest.raises(ClientError) as refused:
        client.list_queues()
    client.close()
    assert refused.value.response["Error"]["Code"] == "SignatureDoesNotMatch"
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


def test_a_signed_link(server: Server, sqs: Any, name: str) -> None:
    sqs.create_queue(QueueName=name)
    link = sqs.generate_presigned_url("get_queue_url", Params={"QueueName": name}, ExpiresIn=60, HttpMethod="GET")
    assert "X-Amz-Signature" in link


def test_what_was_confirmed_is_there_after_a_restart(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    from tests.protocols.sqs.server import running

    with running(tmp_path_factory.mktemp("restarted")) as own:
        client = own.client()
        url = client.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "7"})["QueueUrl"]
        for body in ("kept", "deleted"):
            client.send_message(QueueUrl=url, MessageBody=body)
        got = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
        gone = next(message for message in got if message["Body"] == "deleted")
        client.delete_message(QueueUrl=url, ReceiptHandle=gone["ReceiptHandle"])
        client.close()
        own.process.kill()
        own.process.start()
        client = own.client()
        got = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=5)["Messages"]
        assert [message["Body"] for message in got] == ["kept"]
        found = client.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])["Attributes"]
        assert found == {"VisibilityTimeout": "7"}
        client.close()
