"""A data directory with patterns that older versions took and this one does not: it opens, and they match nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.core.definition_log import Kind
from leveret.security.access import Access
from leveret.security.passwords import hash_password
from tests.protocols.amqp.client import CHEAP
from tests.protocols.management.scene import Api
from tests.server_process import ServerProcess

BACKTRACKING = r"^p.(a+)+\1$"
POLICY = {"priority": 0, "apply-to": "queues", "definition": {"max-length": 7}, "operator": False}


def write_old(path: Path) -> None:
    """Write what older versions journaled for these definitions."""
    with leveret.open(str(path)) as broker, broker.runtime as core:
        access = Access(core, cost=CHEAP)
        access.add_user("ann", hash_password("secret", CHEAP), ["administrator"])
        for name, pattern in (("old", BACKTRACKING), ("possessive", "o++"), ("good", "^orders$")):
            core.define(Kind.POLICY, {"vhost": "/", "name": name, "pattern": pattern, **POLICY})
        owner = {"user": "ann", "vhost": "/"}
        core.define(Kind.PERMISSION, {**owner, "configure": ".*", "write": "(?<=x)y", "read": ".*"})
        core.define(Kind.TOPIC_PERMISSION, {**owner, "exchange": "amq.topic", "write": ".*", "read": BACKTRACKING})
        core.declare_queue("/", "orders")
        core.declare_queue("/", "px" + "a" * 200)


def test_a_directory_with_old_patterns_opens_and_says_so(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path, "--log-format", "json")
    write_old(server.data)
    with server:
        api = Api(server.ports["http"], "ann", "secret")
        policies = {row["name"]: row for row in api.get("/policies")}
        assert "reference to a group" in policies["old"]["problem"]
        assert "possessive" in policies["possessive"]["problem"]
        assert "problem" not in policies["good"]
        assert {row["name"]: row.get("policy") for row in api.get("/queues/%2F")} == {
            "orders": "good",
            "px" + "a" * 200: None,
        }
        assert "lookbehind" in api.get("/permissions/%2F/ann")["problem"]
        assert "reference" in api.get("/topic-permissions/%2F/ann")[0]["problem"]
        publish = {"properties": {}, "routing_key": "orders", "payload": "x", "payload_encoding": "string"}
        assert api.call("POST", "/exchanges/%2F/amq.default/publish", publish).status == 401
        assert api.call("POST", "/bindings/%2F/e/amq.topic/q/orders", {"routing_key": "a"}).status == 401
        assert api.call("PUT", "/queues/%2F/made", {"durable": True}).status == 201
        check_log(server.text)
        # What is exported is what is stored; it is set again with another pattern.
        exported = api.get("/definitions")
        assert BACKTRACKING in [row["pattern"] for row in exported["policies"]]
        refused = api.call("PUT", "/policies/%2F/old", {"pattern": BACKTRACKING, "definition": {"max-length": 7}})
        assert refused.status == 400
        api.put("/policies/%2F/old", {"pattern": "^p.a+$", "definition": {"max-length": 7}})
        assert "problem" not in api.get("/policies/%2F/old")
        assert api.get(f"/queues/%2F/px{'a' * 200}")["policy"] == "old"


def check_log(text: str) -> None:
    """The log says which definitions are not used, why, and what to do."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    told = [row for row in rows if row.get("event", row.get("message")) in ("policy not used", "permission not used")]
    assert [(row.get("policy"), row.get("user")) for row in told] == [
        ("old", None),
        ("possessive", None),
        (None, "ann"),
        (None, "ann"),
    ]
    assert all("set it again with another pattern" in row["advice"] for row in told)


@pytest.mark.parametrize("file", ["policies", "permissions"])
def test_an_imported_pattern_that_cannot_be_used_is_left_out_and_named(tmp_path: Path, file: str) -> None:
    rows = {
        "policies": [
            {"vhost": "/", "name": "ha", "pattern": r"^(?!amq\.).*", "definition": {"ha-mode": "all"}},
            {"vhost": "/", "name": "bad", "pattern": r"(a)\1", "definition": {"max-length": 1}},
        ],
        "permissions": [{"user": "guest", "vhost": "/", "configure": "a++", "write": ".*", "read": ".*"}],
    }
    with ServerProcess(tmp_path) as server:
        api = Api(server.ports["http"])
        told = api.post("/definitions", {file: rows[file]})
        assert len(told["skipped"]) == 1
        assert "is not a regular expression that can be used" in told["skipped"][0]
        if file == "policies":
            assert [row["name"] for row in api.get("/policies")] == ["ha"]
            api.put("/queues/%2F/orders", {"durable": True})
            assert api.get("/queues/%2F/orders")["policy"] == "ha"
