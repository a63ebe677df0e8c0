"""The port for SQS of a real server: TLS, no signatures, long polls at its end."""

import http.client
import json
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config

from leveret.core.errors import InvalidArgument
from leveret.protocols.sqs.settings import Settings
from tests.server.certificates import Authority
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S, wait_until


def ask(port: int, action: str, **parameters: Any) -> http.client.HTTPConnection:
    """Send a request that nobody signed; its answer is still to be read."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    headers = {"X-Amz-Target": f"AmazonSQS.{action}", "Content-Type": "application/x-amz-json-1.0"}
    connection.request("POST", "/", json.dumps(parameters), headers)
    return connection


def read(connection: http.client.HTTPConnection) -> tuple[int, dict[str, Any]]:
    """The answer."""
    answer = connection.getresponse()
    status, body = answer.status, json.loads(answer.read())
    connection.close()
    return status, body


def post(port: int, action: str, **parameters: Any) -> tuple[int, dict[str, Any]]:
    """A request and its answer."""
    return read(ask(port, action, **parameters))


def test_signatures_can_be_switched_off(tmp_path: Path) -> None:
    names = ("--sqs-account", "123456789012", "--sqs-region", "eu-west-1")
    with ServerProcess(tmp_path, "--sqs-auth", "off", *names) as server:
        port = server.ports["sqs"]
        assert post(port, "CreateQueue", QueueName="orders") == (
            200,
            {"QueueUrl": f"http://127.0.0.1:{port}/123456789012/orders"},
        )
        _, found = post(port, "GetQueueAttributes", QueueUrl="orders", AttributeNames=["QueueArn"])
        assert found["Attributes"]["QueueArn"] == "arn:aws:sqs:eu-west-1:123456789012:orders"


@pytest.mark.parametrize("wrong", [{"account": "12"}, {"account": "arn:aws:sqs:"}, {"region": "a:b"}, {"region": ""}])
def test_names_that_no_arn_can_have(wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument):
        Settings(**wrong)  # type: ignore[arg-type]


def test_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("localhost")
    ports = ("--amqps-port", "0", "--sqs-tls-port", "0", "--sqs-auth", "off")
    with ServerProcess(tmp_path, "--tls-cert", str(own.cert), "--tls-key", str(own.key), *ports) as server:
        client = boto3.client(
            "sqs",
            endpoint_url=f"https://127.0.0.1:{server.ports['sqs+tls']}",
            region_name="us-east-1",
            verify=str(authority.cert),
            config=Config(signature_version=UNSIGNED),
        )
        url = client.create_queue(QueueName="orders")["QueueUrl"]
        client.close()
    assert url.startswith("https://")


def test_a_long_poll_ends_when_the_server_does(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path, "--sqs-auth", "off").start()
    port = server.ports["sqs"]
    post(port, "CreateQueue", QueueName="orders")
    waiting = ask(port, "ReceiveMessage", QueueUrl="orders", WaitTimeSeconds=20)
    with server.client() as client:
        orders = client.queue("orders", create=False)
        wait_until(lambda: orders.stats().waiters)
    assert server.stop() == 0
    assert read(waiting) == (200, {})
