"""Real nodes on a real PostgreSQL and a real etcd: what clients of REST and SQS see when one of them is killed."""

import base64
import json
import threading
from http.client import SERVICE_UNAVAILABLE, HTTPConnection
from typing import Any

import boto3
from botocore.config import Config

from tests.cluster.processes import Nodes
from tests.waiting import PATIENCE_S, wait_until

KEY, SECRET = "AKIAEXAMPLEEXAMPLE", "secret/with+signs"
BASIC = "Basic " + base64.b64encode(b"guest:guest").decode()


def ask(nodes: Nodes, node: str, line: str, body: Any = None) -> Any:
    """What a request of REST gives that succeeds; it is made again as long as nobody has the shard."""
    status, text = wait_until(lambda: answered(nodes, node, line, body))
    assert status < 300, text
    return json.loads(text) if text else None


def answered(nodes: Nodes, node: str, line: str, body: Any) -> tuple[int, bytes] | None:
    """How a request is answered; None: it is to be made again."""
    method, path = line.split(" ", 1)
    connection = HTTPConnection("127.0.0.1", nodes.ports(node)["http"], timeout=PATIENCE_S)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Authorization": BASIC, "Connection": "close"})
        answer = connection.getresponse()
        text = answer.read()
        return None if answer.status == SERVICE_UNAVAILABLE else (answer.status, text)
    finally:
        connection.close()


def sqs(nodes: Nodes, node: str) -> Any:
    """A client that tries again, as boto3 does."""
    keys = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "region_name": "us-east-1"}
    config = Config(retries={"max_attempts": 5})
    return boto3.client("sqs", endpoint_url=f"http://127.0.0.1:{nodes.ports(node)['sqs']}", config=config, **keys)


def poll(nodes: Nodes, member: Any, count: int) -> Any:
    """Records for a member of a group."""
    read = {"member": "m", "generation": member["generation"], "offsets": member["offsets"], "max_records": count}
    return ask(nodes, "b", "POST /streams/log/groups/g/poll", read)


def ready(nodes: Nodes, node: str) -> dict[str, int | None]:
    """How many messages wait in each queue, as far as its owner says so in time."""
    return {row["name"]: row.get("ready") for row in ask(nodes, node, "GET /queues")["queues"]}


def test_clients_go_on_when_the_owner_is_killed(nodes: Nodes) -> None:
    nodes.start("a", "b")  # the first one has all shards for a while
    nodes.operate("b", "keys.add", user="guest", id=KEY, secret=SECRET)
    client = sqs(nodes, "b")
    url = client.create_queue(QueueName="orders")["QueueUrl"]
    for body in ("one", "two"):
        client.send_message(QueueUrl=url, MessageBody=body)
    (one,) = client.receive_message(QueueUrl=url)["Messages"]
    ask(nodes, "b", "PUT /queues/jobs", {})
    wait_until(lambda: ready(nodes, "b") == {"jobs": 0, "orders": 1})
    ask(nodes, "b", "PUT /streams/log", {"partitions": 2})
    ask(nodes, "b", "POST /streams/log/records/batch", {"records": [{"payload": n} for n in range(100)]})
    member = ask(nodes, "b", "POST /streams/log/groups/g/join", {"member": "m"})
    first = poll(nodes, member, 40)
    read = {"member": "m", "generation": member["generation"], "offsets": first["offsets"]}
    ask(nodes, "b", "POST /streams/log/groups/g/commit", read)
    got: list[str] = []

    def wait() -> None:
        asked = {"wait_seconds": 50}
        got.extend(each["payload"] for each in ask(nodes, "b", "POST /queues/jobs/dequeue", asked)["messages"])

    waiting = threading.Thread(target=wait)
    waiting.start()
    while ask(nodes, "b", "GET /queues/jobs/stats")["waiters"] < 1:
        pass
    nodes.kill("a")
    client.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
    (two,) = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1)["Messages"]
    assert two["Body"] == "two"
    ask(nodes, "b", "POST /queues/jobs/messages", {"payload": "still here"})
    waiting.join()
    assert got == ["still here"]
    ask(nodes, "b", "POST /streams/log/records", {"payload": 100})
    rest = poll(nodes, ask(nodes, "b", "POST /streams/log/groups/g/join", {"member": "m"}), 1_000)
    payloads = [record["payload"] for record in first["records"] + rest["records"]]
    assert sorted(payloads) == list(range(101))
    client.close()
    assert nodes.stop("b") == 0
