"""The Query protocol: forms and links in, XML out, with the same results as JSON."""

import base64
from typing import Any

import pytest

from tests.protocols.sqs.world import NAMESPACE, World


def elements(answer_xml: object, name: str) -> list[dict[str, str]]:
    """The structures of that name, each as a dictionary of its own elements."""
    found = answer_xml.iter(NAMESPACE + name)  # type: ignore[attr-defined]
    return [{each.tag.removeprefix(NAMESPACE): each.text or "" for each in structure} for structure in found]


def test_a_message_with_attributes_goes_there_and_back(world: World) -> None:
    world.create("orders")
    raw = base64.b64encode(b"\0\xff").decode()
    sent = world.query(
        "SendMessage",
        QueueUrl="orders",
        MessageBody='<a href="x">&\r\n</a>',
        MessageAttributes={
            "color": {"DataType": "String", "StringValue": "<red>"},
            "raw": {"DataType": "Binary", "BinaryValue": raw},
        },
    )
    assert sent.status == 200
    got = world.query(
        "ReceiveMessage", QueueUrl="orders", AttributeNames=["SentTimestamp"], MessageAttributeNames=["All"]
    )
    (message,) = elements(got.xml, "Message")
    assert message["MessageId"] == sent.text("SendMessageResult/MessageId")
    assert message["MD5OfMessageAttributes"] == sent.text("SendMessageResult/MD5OfMessageAttributes")
    assert message["Body"] == '<a href="x">&\r\n</a>'
    assert elements(got.xml, "Attribute") == [{"Name": "SentTimestamp", "Value": str(world.clock.now_ms())}]
    names = [each["Name"] for each in elements(got.xml, "MessageAttribute")]
    assert names == ["color", "raw"]
    values = elements(got.xml, "Value")
    assert {"StringValue": "<red>", "DataType": "String"} in values
    assert {"BinaryValue": raw, "DataType": "Binary"} in values


def test_batches(world: World) -> None:
    world.create("orders")
    entries = [{"Id": "a", "MessageBody": "one"}, {"Id": "b", "MessageBody": ""}]
    answer = world.query("SendMessageBatch", QueueUrl="orders", Entries=entries)
    assert [each["Id"] for each in elements(answer.xml, "SendMessageBatchResultEntry")] == ["a"]
    (failed,) = elements(answer.xml, "BatchResultErrorEntry")
    assert (failed["Id"], failed["SenderFault"]) == ("b", "true")


def test_queues_attributes_and_tags(world: World) -> None:
    made = world.query("CreateQueue", QueueName="orders", Attributes={"VisibilityTimeout": "5"}, tags={"team": "blue"})
    url = made.text("CreateQueueResult/QueueUrl")
    assert url == "http://sqs.test/000000000000/orders"
    got = world.query("GetQueueAttributes", QueueUrl=url, AttributeNames=["VisibilityTimeout"])
    assert elements(got.xml, "Attribute") == [{"Name": "VisibilityTimeout", "Value": "5"}]
    assert elements(world.query("ListQueueTags", QueueUrl=url).xml, "Tag") == [{"Key": "team", "Value": "blue"}]
    assert world.query("ListQueues").text("ListQueuesResult/QueueUrl") == url


@pytest.mark.parametrize("action", ["DeleteQueue", "PurgeQueue"])
def test_what_has_no_result_has_metadata_only(world: World, action: str) -> None:
    world.create("orders")
    answer = world.query(action, QueueUrl="orders")
    assert answer.status == 200
    assert [each.tag for each in answer.xml] == [f"{NAMESPACE}ResponseMetadata"]
    assert answer.text("ResponseMetadata/RequestId") == answer.headers["x-amzn-requestid"]


def test_links_to_a_queue(world: World) -> None:
    world.create("orders")
    path = "/000000000000/orders"
    assert world.get(path, Action="SendMessage", MessageBody="a").status == 200
    got = world.get(path, Action="ReceiveMessage")
    assert got.text("ReceiveMessageResult/Message/Body") == "a"


@pytest.mark.parametrize("named", ["orders", "others"])
def test_a_link_to_a_queue_gives_the_url_of_any_queue(world: World, named: str) -> None:
    world.create("orders")
    url = world.create(named)
    answer = world.get("/000000000000/orders", Action="GetQueueUrl", QueueName=named)
    assert (answer.status, answer.text("GetQueueUrlResult/QueueUrl")) == (200, url)


@pytest.mark.parametrize("empty", ["MessageAttributeNames", "MessageAttributeName"])
def test_empty_lists_of_older_sdks(world: World, empty: str) -> None:
    """botocore sends an empty list under its own name, the first Java SDK under that of its members."""
    world.send(world.create("orders"), "a")
    lists: dict[str, Any] = {empty: "", "AttributeNames": "", "MessageSystemAttributeNames": ""}
    answer = world.get("/000000000000/orders", Action="ReceiveMessage", **lists)
    assert (answer.status, answer.text("ReceiveMessageResult/Message/Body")) == (200, "a")
    answer = world.get("/000000000000/orders", Action="GetQueueAttributes", AttributeNames="")
    assert (answer.status, elements(answer.xml, "Attribute")) == (200, [])


ACCEPT = {b"accept": b"application/json"}


def test_results_in_json_for_those_who_accept_it(world: World) -> None:
    """What API Gateway and browsers get of AWS: lists of names and values, and null for what is not there."""
    world.create("orders")
    path = "/000000000000/orders"
    got = world.get(path, Action="GetQueueAttributes", headers=ACCEPT, **{"AttributeName.1": "VisibilityTimeout"})
    assert (got.status, got.headers["content-type"]) == (200, "application/json")
    metadata = {"RequestId": got.headers["x-amzn-requestid"]}
    assert got.json == {
        "GetQueueAttributesResponse": {
            "GetQueueAttributesResult": {"Attributes": [{"Name": "VisibilityTimeout", "Value": "30"}]},
            "ResponseMetadata": metadata,
        }
    }
    sent = world.query("SendMessage", path=path.encode(), MessageBody="a", headers=ACCEPT)
    result = sent.json["SendMessageResponse"]["SendMessageResult"]
    assert (result["SequenceNumber"], len(result["MD5OfMessageBody"])) == (None, 32)
    received = world.get(path, Action="ReceiveMessage", headers=ACCEPT).json["ReceiveMessageResponse"]
    (message,) = received["ReceiveMessageResult"]["messages"]
    assert (message["Body"], message["Attributes"], message["MessageId"]) == ("a", None, result["MessageId"])
    empty = world.get(path, Action="ReceiveMessage", headers=ACCEPT).json["ReceiveMessageResponse"]
    assert empty["ReceiveMessageResult"] == {"messages": None}
    purged = world.get(path, Action="PurgeQueue", headers=ACCEPT).json
    assert list(purged["PurgeQueueResponse"]) == ["ResponseMetadata"]


def test_refusals_in_json_for_those_who_accept_it(world: World) -> None:
    world.create("orders")
    answer = world.get("/000000000000/orders", Action="ListQueues", headers=ACCEPT)
    text = "The action ListQueues is not valid for this endpoint."
    assert (answer.status, answer.json["Error"]) == (
        400,
        {"Code": "InvalidAction", "Message": text, "Type": "Sender"},
    )
    assert answer.json["RequestId"] == answer.headers["x-amzn-requestid"]
    nothing = world.get("/000000000000/orders", headers=ACCEPT)
    assert (nothing.status, nothing.body) == (404, b"<UnknownOperationException/>")


def test_links_are_about_one_queue(world: World) -> None:
    world.create("orders")
    for action in ("CreateQueue", "ListQueues"):
        answer = world.get("/000000000000/orders", Action=action, QueueName="new")
        assert (answer.status, answer.text("Error/Code")) == (400, "InvalidAction")
        assert answer.text("Error/Message") == f"The action {action} is not valid for this endpoint."
    assert world.get("/", Action="ListQueues").status == 200


def test_a_link_without_an_action(world: World) -> None:
    world.create("orders")
    answer = world.get("/000000000000/orders")
    assert answer.status == 404
    assert answer.body.startswith(b"<UnknownOperationException")


def test_a_form_to_the_url_of_a_queue(world: World) -> None:
    world.create("orders")
    assert world.query("SendMessage", path=b"/000000000000/orders", MessageBody="a").status == 200
    assert world.bodies("orders") == ["a"]


@pytest.mark.parametrize(
    "fields",
    [
        {"MessageAttribute": "x", "MessageAttribute.1.Name": "a"},
        {"MessageAttribute.1": "x"},
        {"MessageAttribute.one.Name": "x"},
        {"DelaySeconds": "soon"},
        {"AttributeName.1.Name": "x"},
    ],
)
def test_forms_that_make_no_sense(world: World, fields: dict[str, Any]) -> None:
    world.create("orders")
    answer = world.get("/000000000000/orders", Action="SendMessage", MessageBody="a", **fields)
    assert answer.status in (200, 400)
    if answer.status == 400:
        assert answer.text("Error/Code") in ("MalformedInput", "InvalidParameterValue")


def test_texts_of_refusals_are_xml_whatever_was_sent(world: World) -> None:
    answer = world.get("/", Action="DeleteMessage", QueueUrl=world.create("orders"), ReceiptHandle="<\x00&")
    assert answer.text("Error/Code") == "ReceiptHandleIsInvalid"
