"""One trace through a server, whatever protocols a message comes and goes by."""

import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.observability.collector import Collector
from tests.protocols.metrics.scene import scrape
from tests.protocols.sqs.server import Server
from tests.server_process import PACKAGES, ServerProcess
from tests.waiting import PATIENCE_S

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{SPAN}-01"
AWS = f"Root=1-{TRACE[:8]}-{TRACE[8:]};Parent={SPAN};Sampled=1"


@pytest.fixture(scope="module")
def listening() -> Iterator[Collector]:
    with Collector(keeps_alive=False) as collector:  # a connection is a thread, and no test may leave one behind
        yield collector


@pytest.fixture(scope="module")
def server(listening: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    flags = ("--tracing", "--tracing-endpoint", listening.url, "--sqs-auth", "off")
    with ServerProcess(tmp_path_factory.mktemp("server"), *flags) as running:
        yield running


@pytest.fixture
def channel(server: ServerProcess) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(server.url))
    opened = connection.channel()
    opened.confirm_delivery()
    yield opened
    connection.close()


@pytest.fixture
def sqs(server: ServerProcess) -> Iterator[Any]:
    client = Server(server).client()
    yield client
    client.close()


def publish(channel: BlockingChannel, queue: str) -> None:
    channel.queue_declare(queue, durable=True)
    properties = pika.BasicProperties(delivery_mode=2, headers={"traceparent": TRACEPARENT})
    channel.basic_publish("", queue, b"body", properties)


def post(server: ServerProcess, path: str, body: Any, headers: dict[str, str]) -> int:
    """Send a request by REST; give the status."""
    connection = HTTPConnection("127.0.0.1", server.ports["http"])
    basic = "Basic " + b64encode(b"guest:guest").decode()
    connection.request("POST", path, json.dumps(body), {"Authorization": basic, **headers})
    status = connection.getresponse().status
    connection.close()
    return status


def check_trace(collector: Collector, queue: str) -> None:
    """The spans of a message that was published, delivered and acknowledged."""
    names = [f"{verb} {queue}" for verb in ("publish", "commit", "deliver", "ack")]
    published, commit, deliver, ack = collector.wait_for(*names)
    assert {span.trace_id.hex() for span in (published, commit, deliver, ack)} == {TRACE}
    assert published.parent_span_id.hex() == deliver.parent_span_id.hex() == SPAN
    assert commit.parent_span_id == published.span_id
    assert ack.parent_span_id == deliver.span_id


def test_from_amqp_to_amqp(channel: BlockingChannel, listening: Collector) -> None:
    publish(channel, "amqp")
    method, properties, _ = next(iter(channel.consume("amqp", inactivity_timeout=PATIENCE_S)))
    assert properties.headers == {"traceparent": TRACEPARENT}
    channel.basic_ack(method.delivery_tag)
    channel.cancel()
    check_trace(listening, "amqp")


def test_from_amqp_to_sqs(channel: BlockingChannel, sqs: Any, listening: Collector) -> None:
    publish(channel, "sqs")
    url = sqs.get_queue_url(QueueName="sqs")["QueueUrl"]
    (message,) = sqs.receive_message(
        QueueUrl=url, MessageAttributeNames=["All"], MessageSystemAttributeNames=["AWSTraceHeader"]
    )["Messages"]
    assert message["MessageAttributes"]["traceparent"]["StringValue"] == TRACEPARENT
    assert message["Attributes"] == {"AWSTraceHeader": AWS}
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    check_trace(listening, "sqs")


def test_from_amqp_to_rest(channel: BlockingChannel, server: ServerProcess, listening: Collector) -> None:
    publish(channel, "rest")
    with server.client() as client:
        (message,) = client.queue("rest").receive(wait=30)
        assert message.headers == {"traceparent": TRACEPARENT}
        message.ack()
    check_trace(listening, "rest")


def test_from_sqs_to_amqp(channel: BlockingChannel, sqs: Any, listening: Collector) -> None:
    url = sqs.create_queue(QueueName="from-sqs")["QueueUrl"]
    sqs.send_message(
        QueueUrl=url,
        MessageBody="body",
        MessageSystemAttributes={"AWSTraceHeader": {"DataType": "String", "StringValue": AWS}},
    )
    method, properties, _ = channel.basic_get("from-sqs")
    assert method is not None
    assert properties is not None
    assert properties.headers["traceparent"] == TRACEPARENT
    channel.basic_ack(method.delivery_tag)
    check_trace(listening, "from-sqs")


def test_a_trace_header_of_aws_comes_back_alone(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="aws")["QueueUrl"]
    given = {"AWSTraceHeader": {"DataType": "String", "StringValue": AWS}}
    own = {"traceparent": {"DataType": "String", "StringValue": "mine"}}
    sqs.send_message(QueueUrl=url, MessageBody="body", MessageSystemAttributes=given)
    sqs.send_message(QueueUrl=url, MessageBody="body", MessageSystemAttributes=given, MessageAttributes=own)
    for expected in ({}, own):
        (message,) = sqs.receive_message(
            QueueUrl=url, MessageAttributeNames=["All"], MessageSystemAttributeNames=["AWSTraceHeader"]
        )["Messages"]
        assert message.get("MessageAttributes", {}) == expected
        assert message["Attributes"] == {"AWSTraceHeader": AWS}


def test_from_rest_by_the_headers_of_the_request(
    channel: BlockingChannel, server: ServerProcess, listening: Collector
) -> None:
    channel.queue_declare("from-rest", durable=True)
    path = "/queues/from-rest/messages"
    headers = {"traceparent": TRACEPARENT, "tracestate": "vendor=1"}
    assert post(server, path, {"payload": "x"}, headers) == 201
    many = {"messages": [{"payload": "y"}, {"payload": "z", "headers": {"traceparent": "mine"}}]}
    assert post(server, f"{path}/batch", many, headers) == 201
    found = [channel.basic_get("from-rest") for _ in range(3)]
    assert [properties.headers for _, properties, _ in found if properties is not None] == [
        headers,
        headers,
        {"traceparent": "mine"},
    ]
    channel.basic_ack(0, multiple=True)
    check_trace(listening, "from-rest")


def test_the_status_counts_spans(channel: BlockingChannel, server: ServerProcess, listening: Collector) -> None:
    for queue in ("counted", "counted-too"):  # when the second one is there, the first was answered and counted
        publish(channel, queue)
        listening.wait_for(f"publish {queue}")
    command = [sys.executable, "-m", "leveret", "status", "--json", "--data", str(server.data)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": PACKAGES}
    )
    facts = json.loads(done.stdout)
    assert facts["spans_exported"] >= 1
    assert facts["spans_dropped"] == facts["spans_avoided"] == 0
    assert scrape(server).value("leveret_spans_total", outcome="exported") >= facts["spans_exported"]


def test_a_malformed_context_of_a_request_is_left_out(channel: BlockingChannel, server: ServerProcess) -> None:
    channel.queue_declare("malformed")
    assert post(server, "/queues/malformed/messages", {"payload": "x"}, {"traceparent": "nonsense"}) == 201
    _, properties, _ = channel.basic_get("malformed", auto_ack=True)
    assert properties is not None
    assert not properties.headers
