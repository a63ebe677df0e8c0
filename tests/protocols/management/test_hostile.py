"""Hostile JSON at every endpoint: refused or taken, never a failure; and what was taken can be shown."""

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import leveret
from leveret.core import jsonable
from tests.hostile import HOSTILE, bodies
from tests.protocols.management.requests import WRITE
from tests.protocols.management.scene import VHOST, Api, define
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S

PROPERTIES = {"headers": {}, "priority": 1, "timestamp": 1, "message_id": "m", "expiration": "1", "content_type": "t"}
POLICY = {"pattern": "^h", "definition": {"ha-mode": "all"}, "priority": 0, "apply-to": "all"}
QUEUE = {"name": "h", "vhost": VHOST, "durable": True, "auto_delete": False, "arguments": {}}
EXCHANGE = {**QUEUE, "type": "topic", "internal": False}
BINDING = {
    "source": "orders",
    "destination": "orders",
    "destination_type": "queue",
    "routing_key": "k",
    "arguments": {},
}
RULE = {
    "figure": "depth_max",
    "limit": 5,
    "clear": 4,
    "for_s": 60,
    "severity": "info",
    "says": "x",
    "vhost": "*",
    "queue": "h",
}
RECEIVER = {"kind": "webhook", "url": "http://127.0.0.1:9/x", "rules": ["h"], "severity_min": "info", "group_s": 60}
MAIL = {"kind": "email", "host": "127.0.0.1", "port": 25, "tls": "none", "sender": "a@b.c", "to": ["a@b.c"]}
MORE: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("PUT", f"/queues/{VHOST}/hostile", {"durable": True, "auto_delete": False, "arguments": {}}),
    ("PUT", f"/exchanges/{VHOST}/hostile", {"type": "topic", "durable": True, "internal": False, "arguments": {}}),
    ("POST", f"/bindings/{VHOST}/e/orders/q/orders", {"routing_key": "k", "arguments": {}}),
    ("PUT", f"/policies/{VHOST}/hostile", POLICY),
    ("PUT", f"/parameters/operator_policy/{VHOST}/hostile", {"value": {**POLICY, "definition": {"max-length": 5}}}),
    ("PUT", f"/parameters/vhost-limits/{VHOST}/limits", {"value": {"max-queues": 1_000}}),
    (
        "POST",
        f"/exchanges/{VHOST}/amq.default/publish",
        {"properties": PROPERTIES, "routing_key": "orders", "payload": "x", "payload_encoding": "string"},
    ),
    (
        "POST",
        f"/exchanges/{VHOST}/amq.default/publish",
        {
            "properties": {"headers": {"a": 1, "CC": ["idle"], "x-delay": 1}},
            "routing_key": "orders",
            "payload": "x",
            "payload_encoding": "base64",
        },
    ),
    (
        "POST",
        f"/queues/{VHOST}/orders/get",
        {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto", "truncate": 5},
    ),
    ("POST", f"/queues/{VHOST}/orders/move", {"destination": "idle", "count": 1}),
    ("PUT", "/alerts/rules/hostile", RULE),
    ("PUT", "/alerts/receivers/hostile", RECEIVER),
    ("PUT", "/alerts/receivers/hostile", MAIL),
    ("POST", "/alerts/silences", {"rule": "h", "vhost": "*", "queue": "*", "until_ms": 1, "why": "x"}),
    ("PUT", "/users/hostile", {"password": "long enough", "tags": "", "limits": {}}),
    ("POST", "/definitions", {"queues": [QUEUE], "exchanges": [EXCHANGE], "bindings": [{**BINDING, "vhost": VHOST}]}),
    (
        "POST",
        "/definitions",
        {"policies": [{**POLICY, "name": "h", "vhost": VHOST}], "alert_rules": [{**RULE, "name": "h"}]},
    ),
    (
        "POST",
        "/definitions",
        {
            "vhosts": [{"name": "h", "tags": [], "description": "", "default_queue_type": "classic"}],
            "users": [{"name": "h", "password_hash": "", "tags": "", "limits": {}}],
            "permissions": [{"user": "alice", "vhost": VHOST, "configure": "", "write": "", "read": ""}],
            "topic_permissions": [{"user": "alice", "vhost": VHOST, "exchange": "amq.topic", "write": "", "read": ""}],
            "parameters": [{"component": "vhost-limits", "vhost": VHOST, "name": "limits", "value": {}}],
            "global_parameters": [{"name": "h", "value": 1}],
        },
    ),
)
REQUESTS = [*((method, path, body) for method, path, body in WRITE if isinstance(body, dict)), *MORE]
LISTS = (
    "queues",
    "exchanges",
    "bindings",
    "policies",
    "operator-policies",
    "vhosts",
    "users",
    "permissions",
    "topic-permissions",
    "parameters",
    "global-parameters",
    "definitions",
    "alerts/rules",
    "alerts/receivers",
    "alerts/silences",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server of its own: what is sent here is to harm no other test."""
    with ServerProcess(tmp_path_factory.mktemp("hostile")) as running:
        define(Api(running.ports["http"]))
        yield running


def failures(api: Api, method: str, path: str, requests: Iterator[tuple[str, bytes]]) -> list[tuple[str, int]]:
    """The bodies that the server fails at, over one connection."""
    connection = HTTPConnection("127.0.0.1", api.port, timeout=PATIENCE_S)
    failed = []
    try:
        for name, body in requests:
            connection.request(method, f"/api{path}", body, {"Authorization": api.authorization})
            answer = connection.getresponse()
            answer.read()
            if answer.status >= 500:
                failed.append((name, answer.status))
    finally:
        connection.close()
    return failed


def check_lists(api: Api) -> None:
    """Every list can be shown."""
    statuses = {name: api.call("GET", f"/{name}").status for name in LISTS}
    assert statuses == dict.fromkeys(LISTS, 200)


@pytest.mark.parametrize("number", range(len(REQUESTS)), ids=[f"{method} {path}" for method, path, _ in REQUESTS])
def test_hostile_json_is_no_failure(api: Api, number: int) -> None:
    method, path, body = REQUESTS[number]
    assert not failures(api, method, path, bodies(body))
    check_lists(api)


def test_hostile_headers_of_a_probe_are_no_failure(api: Api) -> None:
    for text in HOSTILE.values():
        given = quote(f'{{"a": {text}}}', safe="")
        assert api.call("GET", f"/exchanges/{VHOST}/orders/probe?headers={given}").status < 500


def test_a_directory_that_holds_such_values_already_opens_and_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison = {"snan": Decimal("sNaN"), "huge": Decimal("1E+999999"), "naive": datetime(1, 1, 1), "in": [Decimal("NaN")]}
    server = ServerProcess(tmp_path)
    with monkeypatch.context() as old:
        # What versions before these checks wrote.
        old.setattr(jsonable, "_checked_decimal", lambda value: value)
        old.setattr(jsonable, "_checked_time", lambda value: value)
        with leveret.open(str(server.data)) as broker, broker.runtime as core:
            core.declare_queue("/", "old", poison)
            core.declare_exchange("/", "old", "headers", arguments=poison)
            core.bind("/", "old", "old", "k", poison)
    with server:
        api = Api(server.ports["http"])
        check_lists(api)
        told = {"snan": "sNaN", "huge": "1E+999999", "naive": "0001-01-01T00:00:00", "in": ["NaN"]}
        assert api.get("/queues/%2F/old")["arguments"] == told
        assert api.get("/exchanges/%2F/old")["arguments"] == told
        (row,) = api.get("/bindings/%2F/e/old/q/old")
        assert row["arguments"] == told
        publish = {
            "properties": {"headers": {"snan": 1}},
            "routing_key": "k",
            "payload": "x",
            "payload_encoding": "string",
        }
        assert api.post("/exchanges/%2F/old/publish", publish) == {"routed": False}
        api.delete(f"/bindings/%2F/e/old/q/old/{quote(row['properties_key'], safe='')}")
        api.delete("/queues/%2F/old")
        api.delete("/exchanges/%2F/old")
