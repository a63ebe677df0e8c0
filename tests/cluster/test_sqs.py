"""boto3 by whatever node: the whole life of queues and messages, whoever has the queue."""

import json
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.cluster.cluster import SHARDS, name_in
from tests.cluster.web_cluster import WebCluster

ARN = "arn:aws:sqs:us-east-1:000000000000:"
ALL = {"AttributeNames": ["All"]}


@pytest.fixture
def cluster() -> Iterator[WebCluster]:
    made = WebCluster("a", "b", "c")
    yield made
    made.close()


@pytest.fixture
def clients(cluster: WebCluster) -> Iterator[dict[str, Any]]:
    """A client of each node."""
    made = {name: cluster.sqs(name) for name in "abc"}
    yield made
    for each in made.values():
        each.close()


def url(name: str) -> str:
    """Of a queue, good at every node."""
    return f"http://anywhere/000000000000/{name}"


def bodies(client: Any, name: str, **options: Any) -> list[str]:
    found = client.receive_message(QueueUrl=url(name), MaxNumberOfMessages=10, **options).get("Messages", [])
    return sorted(message["Body"] for message in found)


@pytest.mark.parametrize("shard", [0, 1])
def test_the_life_of_a_queue(clients: dict[str, Any], shard: int) -> None:
    a, b, c = clients["a"], clients["b"], clients["c"]
    name = name_in(shard, "life")
    made = a.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "60"}, tags={"team": "blue"})["QueueUrl"]
    assert b.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "60"})["QueueUrl"] != made  # another host
    with pytest.raises(ClientError, match="QueueAlreadyExists"):
        c.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "61"})
    assert a.get_queue_url(QueueName=name)["QueueUrl"] == made
    sent = b.send_message(QueueUrl=url(name), MessageBody="one")
    (message,) = c.receive_message(QueueUrl=url(name), AttributeNames=["All"])["Messages"]
    assert (message["MessageId"], message["Body"], message["Attributes"]["SenderId"]) == (
        sent["MessageId"],
        "one",
        "guest",
    )
    a.change_message_visibility(QueueUrl=url(name), ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    (again,) = b.receive_message(QueueUrl=url(name))["Messages"]
    a.delete_message(QueueUrl=url(name), ReceiptHandle=again["ReceiptHandle"])
    entries = [{"Id": str(n), "MessageBody": f"m{n}"} for n in range(3)]
    assert len(c.send_message_batch(QueueUrl=url(name), Entries=entries)["Successful"]) == 3
    b.set_queue_attributes(QueueUrl=url(name), Attributes={"VisibilityTimeout": "5", "DelaySeconds": "0"})
    b.untag_queue(QueueUrl=url(name), TagKeys=["team"])
    b.tag_queue(QueueUrl=url(name), Tags={"team": "red"})
    b.add_permission(QueueUrl=url(name), Label="open", AWSAccountIds=["*"], Actions=["SendMessage"])
    for client in clients.values():
        found = client.get_queue_attributes(QueueUrl=url(name), **ALL)["Attributes"]
        assert (found["ApproximateNumberOfMessages"], found["VisibilityTimeout"]) == ("3", "5")
        assert json.loads(found["Policy"])["Statement"][0]["Sid"] == "open"
        assert client.list_queue_tags(QueueUrl=url(name))["Tags"] == {"team": "red"}
    c.purge_queue(QueueUrl=url(name))
    assert bodies(a, name) == []
    c.delete_queue(QueueUrl=url(name))
    for client in clients.values():
        with pytest.raises(client.exceptions.QueueDoesNotExist):
            client.receive_message(QueueUrl=url(name))


def test_a_message_wakes_who_waits_at_another_node(cluster: WebCluster, clients: dict[str, Any]) -> None:
    name = name_in(1, "waiting")
    clients["a"].create_queue(QueueName=name)
    got: list[str] = []
    waiting = threading.Thread(target=lambda: got.extend(bodies(clients["a"], name, WaitTimeSeconds=20)))
    waiting.start()
    cluster.wait_until(lambda: cluster.ok("b", f"GET /queues/{name}/stats")["waiters"] == 1)
    clients["c"].send_message(QueueUrl=url(name), MessageBody="here")
    waiting.join()
    assert got == ["here"]


def test_fifo_and_duplicates(clients: dict[str, Any]) -> None:
    name = "orders.fifo"
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    clients["a"].create_queue(QueueName=name, Attributes=attributes)
    numbers = [
        clients[node].send_message(QueueUrl=url(name), MessageBody=body, MessageGroupId="g")["SequenceNumber"]
        for node, body in ("a1", "b2", "c1")
    ]
    assert (numbers[0] == numbers[2], numbers[0] < numbers[1]) == (True, True)
    (first,) = clients["b"].receive_message(QueueUrl=url(name))["Messages"]
    assert (first["Body"], bodies(clients["c"], name)) == ("1", [])
    clients["a"].delete_message(QueueUrl=url(name), ReceiptHandle=first["ReceiptHandle"])
    assert bodies(clients["c"], name) == ["2"]
    clients["a"].purge_queue(QueueUrl=url(name))
    clients["b"].set_queue_attributes(QueueUrl=url(name), Attributes={"VisibilityTimeout": "7"})
    clients["c"].send_message(QueueUrl=url(name), MessageBody="1", MessageGroupId="g")
    assert bodies(clients["a"], name) == ["1"], "what was purged is no duplicate"


def test_names_of_all_shards_in_pages(clients: dict[str, Any]) -> None:
    names = sorted(name_in(shard, "named") for shard in range(SHARDS))
    for name in names:
        clients["a"].create_queue(QueueName=name)
    for client in clients.values():
        pages = list(
            client.get_paginator("list_queues").paginate(QueueNamePrefix="named", PaginationConfig={"PageSize": 3})
        )
        assert [len(page["QueueUrls"]) for page in pages] == [3, 1]
        assert [each.rpartition("/")[2] for page in pages for each in page["QueueUrls"]] == names


def test_dead_letters_go_to_another_shard_and_back(cluster: WebCluster, clients: dict[str, Any]) -> None:
    a, b, c = clients["a"], clients["b"], clients["c"]
    dead, sources = name_in(1, "dead"), [name_in(2, "first"), name_in(3, "second")]
    a.create_queue(QueueName=dead)
    policy = json.dumps({"deadLetterTargetArn": ARN + dead, "maxReceiveCount": 1})
    for name in sources:
        b.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "0", "RedrivePolicy": policy})
        c.send_message(QueueUrl=url(name), MessageBody=name)
        assert bodies(a, name) == [name]
        assert bodies(a, name) == []
    found = c.list_dead_letter_source_queues(QueueUrl=url(dead))["queueUrls"]
    assert [each.rpartition("/")[2] for each in found] == sources
    cluster.wait_until(partial(cluster.has, dead, 2))
    assert cluster.ok("a", f"GET /queues/{sources[0]}/stats")["dlq_count"] == 2
    b.start_message_move_task(SourceArn=ARN + dead)

    def moved() -> bool:
        (task,) = c.list_message_move_tasks(SourceArn=ARN + dead)["Results"]
        return bool(task["Status"] == "COMPLETED")

    cluster.wait_until(moved)
    for name in sources:
        cluster.wait_until(partial(cluster.has, name, 1))
        assert bodies(b, name) == [name]


def test_a_receipt_is_good_at_every_node_and_after_a_move(cluster: WebCluster, clients: dict[str, Any]) -> None:
    name = name_in(1, "moved")
    clients["a"].create_queue(QueueName=name)
    for body in "12":
        clients["a"].send_message(QueueUrl=url(name), MessageBody=body)
    one, two = (clients["a"].receive_message(QueueUrl=url(name))["Messages"][0] for _ in range(2))
    clients["c"].delete_message(QueueUrl=url(name), ReceiptHandle=one["ReceiptHandle"])
    cluster.move("1", "c")
    clients["b"].delete_message(QueueUrl=url(name), ReceiptHandle=two["ReceiptHandle"])
    found = clients["a"].get_queue_attributes(QueueUrl=url(name), **ALL)["Attributes"]
    assert {found[f"ApproximateNumberOfMessages{which}"] for which in ("", "NotVisible")} == {"0"}


def test_who_may_not_is_refused_by_every_node(cluster: WebCluster, clients: dict[str, Any]) -> None:
    name = name_in(1, "closed")
    clients["a"].create_queue(QueueName=name)
    with pytest.raises(ClientError, match="security token"):
        cluster.sqs_as("a", "AKIANOBODY", "wrong").send_message(QueueUrl=url(name), MessageBody="x")
    cluster.add_reader("ann", "AKIAANN", "secret")
    ann = cluster.sqs_as("a", "AKIAANN", "secret")
    assert ann.receive_message(QueueUrl=url(name)).get("Messages", []) == []
    with pytest.raises(ClientError, match="AccessDenied"):
        ann.send_message(QueueUrl=url(name), MessageBody="x")
    ann.close()
