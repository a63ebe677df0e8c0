"""Hostile JSON in every field of every operation: refused or taken, never a failure; what was taken can be shown."""

import base64
import json
from collections.abc import Iterable, Iterator
from decimal import Decimal
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode

import pytest

from leveret.protocols.http.fields import Choice, Flag, JsonField, Listed, Number, RecordField, TableField, Text, Whole
from leveret.protocols.rest.api import OPERATIONS
from leveret.protocols.rest.operation import RestOperation
from tests.hostile import HOSTILE, PLACE, TEXTS
from tests.protocols.rest.world import RestWorld
from tests.waiting import PATIENCE_S

NAMES = {"queue": "orders", "exchange": "shop", "stream": "clicks", "group": "readers", "receipt": "x"}
WITH_BODY = [each for each in OPERATIONS if each.body is not None]
WITH_QUERY = [each for each in OPERATIONS if each.query is not None and "tail" not in each.path]
LISTS = ("/queues", "/exchanges", "/streams", "/exchanges/shop/bindings", "/queues/orders", "/streams/clicks")
JSON = "application/json"
QUOTED = json.dumps(PLACE)


def sample(field: JsonField) -> Any:
    """A value that a field takes."""
    schema = field.schema
    if isinstance(field, RecordField):
        return {name: sample(each) for name, each in field.fields.items() if each.required}
    if isinstance(field, Listed):
        return [sample(field.each)]
    if isinstance(field, Whole | Number):
        return schema["minimum"]
    if isinstance(field, Choice):
        return schema["enum"][0]
    if isinstance(field, Flag):
        return True
    return {} if isinstance(field, TableField) else "orders" if isinstance(field, Text) else 1


def places(field: JsonField) -> Iterator[tuple[str, Any]]:
    """A value of a field with each of the places in it where JSON may stand; those that take any JSON end in "*"."""
    yield "*" if type(field) in (JsonField, TableField) else "", PLACE
    if isinstance(field, RecordField):
        for name, each in field.fields.items():
            for inner, made in places(each):
                yield f"{name}.{inner}", {**sample(field), name: made}
    elif isinstance(field, Listed):
        yield from ((f"[].{inner}", [made]) for inner, made in places(field.each))
    elif isinstance(field, TableField):
        yield "a*", {"a": PLACE}
        yield "a[]*", {"a": [PLACE]}


def path_of(operation: RestOperation) -> str:
    """A path with names in its places."""
    path = operation.path
    for part in path.split("/"):
        if part.startswith("{"):
            path = path.replace(part, NAMES.get(part[1:-1], "1"))
    return path


@pytest.fixture
def served(world: RestWorld) -> RestWorld:
    """A broker with one of everything."""
    world.ok("PUT /queues/orders")
    world.ok("PUT /streams/clicks")
    world.ok("PUT /streams/clicks/groups/readers")
    world.ok("PUT /exchanges/shop", {"type": "headers"})
    return world


def refused(served: RestWorld, requests: Iterable[tuple[str, str, str, bytes | None]]) -> list[tuple[str, int, bytes]]:
    """Those of some requests, each with a name, that the server failed at."""
    connection = HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE_S)
    headers = {"Authorization": f"Bearer {served.token}"}
    failed = []
    try:
        for name, method, path, body in requests:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            told = answer.read()
            if answer.status >= 500:
                failed.append((name, answer.status, told[:200]))
    finally:
        connection.close()
    return failed


@pytest.mark.parametrize("operation", WITH_BODY, ids=[f"{each.method} {each.path}" for each in WITH_BODY])
def test_hostile_json_is_no_failure(served: RestWorld, operation: RestOperation) -> None:
    assert operation.body is not None
    made = [(where, json.dumps(body)) for where, body in places(operation.body)]
    requests = (
        (f"{what} as {where}", operation.method, path_of(operation), text.replace(QUOTED, value).encode())
        for where, text in made
        for what, value in (HOSTILE if where.endswith("*") else TEXTS).items()
    )
    assert not refused(served, requests)
    for path in LISTS:
        answer = served.call(f"GET {path}")
        assert answer.status in (200, 404), answer
    assert served.call("GET /queues/orders/messages").status in (200, 404)


@pytest.mark.parametrize("operation", WITH_QUERY, ids=[f"{each.method} {each.path}" for each in WITH_QUERY])
def test_a_hostile_query_is_no_failure(served: RestWorld, operation: RestOperation) -> None:
    assert operation.query is not None
    needed = sample(operation.query)
    requests = (
        (f"{what} as {name}", operation.method, f"{path_of(operation)}?{urlencode({**needed, name: value})}", None)
        for name in operation.query.fields
        for what, value in (HOSTILE if type(operation.query.fields[name]) is Text else TEXTS).items()
        if len(value) < 5_000
    )
    assert not refused(served, requests)


def test_texts_of_other_publishers_that_are_no_utf_8(served: RestWorld) -> None:
    raw = "\udcff"
    texts = ("correlation_id", "reply_to", "message_id", "type", "app_id", "content_type", "content_encoding")
    headers = {raw: 1, "a": raw, "b": {raw: [raw]}, "f": float("nan"), "d": Decimal("1E-255")}
    deep = b"[" * 500 + b"]" * 500
    for body, content_type in (
        (b"\xff", raw),
        (b"\xff", "text/plain"),
        (b'"\\udcff"', JSON),
        (b"1e999", JSON),
        (deep, JSON),
    ):
        served.broker.queue("orders").send(
            body, headers=headers, properties={**dict.fromkeys(texts, raw), "content_type": content_type}
        )
        assert len(served.ok("GET /queues/orders/messages")["messages"]) == 1
        taken = served.take("orders")
        assert base64.b64decode(taken["payload_base64"]) == body
        assert taken["attributes"]["correlationId"] == raw
        assert taken["headers"][raw] == 1
        served.ok("POST /queues/orders/acknowledge", {"receipt_handles": [taken["receipt_handle"]]})
