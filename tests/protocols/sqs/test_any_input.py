"""Whatever is sent: an answer that says what is wrong, never a failure of the server."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leveret.core.errors import LeveretError
from leveret.protocols.http.request import HttpPeer, Request
from leveret.protocols.sqs.service import ACTIONS, QUEUE_ACTIONS
from leveret.protocols.sqs.wire import TYPES
from tests.hostile import bodies
from tests.protocols.sqs.world import FORM, World, json_request

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=20),
    st.sampled_from(["orders", "orders.fifo", "All", "String", "Number", "Binary", "0", "{}", "[]", "*", "a.b.c"]),
)  # fmt: skip
NAMES = st.sampled_from(
    [
        *TYPES,
        "Id",
        "DataType",
        "StringValue",
        "BinaryValue",
        "VisibilityTimeout",
        "AWSTraceHeader",
        "RedrivePolicy",
        "x",
    ]
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=12,
)
PARAMETERS = st.dictionaries(NAMES, ANYTHING, max_size=6)
EVERY_ACTION = st.sampled_from(sorted([*ACTIONS, *QUEUE_ACTIONS]))
HERE = {"QueueUrl": "orders", "WaitTimeSeconds": 0}
CHECKS = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


@pytest.fixture
def shared() -> Iterator[World]:
    """One world for all examples: a failure of one must not be hidden by a new one."""
    world = World(guards=False)
    world.create("orders.fifo")
    yield world
    world.end()


@settings(deadline=None, max_examples=400, suppress_health_check=CHECKS)
@given(action=EVERY_ACTION, parameters=PARAMETERS, on_queue=st.booleans())
def test_any_json(shared: World, action: str, parameters: dict[str, Any], on_queue: bool) -> None:
    shared.create("orders")
    given = {**parameters, **HERE} if on_queue else {**parameters, "WaitTimeSeconds": 0}
    answer = shared.handle(json_request(action, given))[0]
    assert answer.status < 500
    json.loads(answer.body)


FIELDS = st.lists(
    st.sampled_from([*TYPES, "Attribute", "MessageAttribute", "Tag", "Name", "Value", "1", "2", "x", ""]), max_size=5
)


@settings(deadline=None, max_examples=300, suppress_health_check=CHECKS)
@given(action=EVERY_ACTION, fields=st.dictionaries(FIELDS.map(".".join), st.text(max_size=10), max_size=8))
def test_any_form(shared: World, action: str, fields: dict[str, str]) -> None:
    shared.create("orders")
    request = Request("POST", b"/0/orders", FORM, HttpPeer("127.0.0.1", 1))
    request.body = urlencode({**fields, "WaitTimeSeconds": "0", "Action": action}).encode()
    answer = shared.handle(request)[0]
    assert answer.status < 500
    assert answer.xml.tag


@settings(deadline=None, max_examples=200, suppress_health_check=CHECKS)
@given(st.dictionaries(st.text(min_size=1, max_size=20), ANYTHING, max_size=5), st.binary(max_size=50))
def test_any_headers_of_other_publishers(shared: World, headers: dict[str, Any], body: bytes) -> None:
    shared.create("orders")
    shared.do("PurgeQueue", QueueUrl="orders")
    try:
        shared.broker.queue("orders").send(body, headers=headers)
    except LeveretError:
        return
    for receive in (shared.json, shared.query):
        answer = receive(
            "ReceiveMessage",
            QueueUrl="orders",
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
            VisibilityTimeout=0,
        )
        assert answer.status == 200
        assert b"Body" in answer.body
        shared.later(0.001)


MESSAGE = {
    "MessageBody": "b",
    "DelaySeconds": 0,
    "MessageAttributes": {"a": {"DataType": "String", "StringValue": "x"}},
    "MessageSystemAttributes": {"AWSTraceHeader": {"DataType": "String", "StringValue": "x"}},
}
GIVEN: dict[str, dict[str, Any]] = {
    "SendMessage": MESSAGE,
    "SendMessageBatch": {"Entries": [{**MESSAGE, "Id": "1"}]},
    "ReceiveMessage": {"AttributeNames": ["All"], "MaxNumberOfMessages": 1, "VisibilityTimeout": 0},
    "CreateQueue": {"QueueName": "made", "Attributes": {"RedrivePolicy": "{}"}, "tags": {"a": "b"}},
    "SetQueueAttributes": {"Attributes": {"Policy": "{}", "RedriveAllowPolicy": "{}", "DelaySeconds": "0"}},
    "TagQueue": {"Tags": {"a": "b"}},
    "DeleteMessageBatch": {"Entries": [{"Id": "1", "ReceiptHandle": "x"}]},
    "ListQueues": {"QueueNamePrefix": "o", "MaxResults": 1, "NextToken": "x"},
}


@pytest.mark.parametrize("action", GIVEN)
def test_hostile_json_is_no_failure(shared: World, action: str) -> None:
    shared.create("orders")
    failed = []
    for name, data in bodies({"QueueUrl": "orders", "WaitTimeSeconds": 0, **GIVEN[action]}):
        request = json_request(action, {})
        request.body = data
        answer = shared.handle(request)[0]
        if answer.status >= 500:
            failed.append((name, answer.status, answer.body[:200]))
    assert not failed


def test_properties_of_other_publishers_that_are_no_utf_8(shared: World) -> None:
    shared.create("orders")
    raw = "\udcff"
    texts = ("correlation_id", "reply_to", "message_id", "type", "app_id", "content_type", "content_encoding")
    shared.broker.queue("orders").send(
        b"body", headers={raw: 1, "a": raw, "b": {raw: [raw]}}, properties=dict.fromkeys(texts, raw)
    )
    for receive in (shared.json, shared.query):
        answer = receive("ReceiveMessage", QueueUrl="orders", MessageAttributeNames=["All"], VisibilityTimeout=0)
        assert answer.status == 200
        assert b"amqp.correlation_id" in answer.body
        shared.later(0.001)
