"""The audit log: every change that was asked for, with what became of it."""

import asyncio
import base64
import http.client
import json
from typing import Any

import pytest

import leveret
from leveret.core.errors import NotFound
from leveret.observability.audit import FIELD_BYTES_MAX, UNFINISHED, Audit
from tests.protocols.management.scene import Api
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S


def outcomes(api: Api, start: str) -> list[tuple[str, str, str]]:
    """Who did what and what became of it, of the acts that begin so; the oldest first."""
    connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=PATIENCE_S)
    try:
        basic = base64.b64encode(b"guest:guest").decode()
        connection.request("GET", "/audit?limit=1000", headers={"Authorization": f"Basic {basic}"})
        acts: list[dict[str, Any]] = json.loads(connection.getresponse().read())["acts"]
    finally:
        connection.close()
    return [(act["by"], act["act"], act["outcome"]) for act in reversed(acts) if start in act["act"]]


def test_changes_are_noted_with_their_outcome(api: Api) -> None:
    api.put("/vhosts/noted")
    assert Api(api.port, "alice", "wonderland").call("DELETE", "/vhosts/noted").status == 401
    api.delete("/vhosts/noted")
    assert api.call("DELETE", "/vhosts/noted").status == 404
    assert api.call("GET", "/vhosts/noted").status == 404
    put, denied, deleted, missing = outcomes(api, "/api/vhosts/noted")
    assert put == ("guest", "PUT /api/vhosts/noted", "done")
    assert denied[:2] == ("alice", "DELETE /api/vhosts/noted")
    assert "administrator" in denied[2]
    assert deleted == ("guest", "DELETE /api/vhosts/noted", "done")
    assert missing == ("guest", "DELETE /api/vhosts/noted", "Missing")


@pytest.mark.parametrize(
    ("error", "outcome", "kind"),
    [
        (NotFound("not there"), "not there", "refusals"),
        (ZeroDivisionError(), UNFINISHED, "clients"),
        (asyncio.CancelledError(), UNFINISHED, "clients"),
    ],
)
def test_an_act_that_did_not_end_well(error: BaseException, outcome: str, kind: str) -> None:
    audit = Audit(leveret.ManualClock())
    with pytest.raises(type(error)), audit.noting("alice", "act", "act", "clients", path="/"):
        raise error
    assert [(row["outcome"], row["path"], row["kind"]) for row in audit.recent()] == [(outcome, "/", kind)]


def test_refused_requests_push_out_no_change(server: ServerProcess, api: Api) -> None:
    api.put("/vhosts/kept")
    mallory = Api(api.port, "mallory", "without any permission")
    api.put("/users/mallory", {"password": "without any permission", "tags": ""})
    for number in range(30):
        assert mallory.call("DELETE", f"/vhosts/{number}{'x' * 7_000}").status == 401
    refusals = [act for act in outcomes(api, "DELETE /api/vhosts") if act[0] == "mallory"]
    assert len(refusals) == 1, "the others are counted"
    assert len(refusals[0][1]) <= FIELD_BYTES_MAX
    changes = (server.data / "audit.jsonl").read_text()
    assert "/api/vhosts/kept" in changes
    assert "mallory" not in changes.replace("/api/users/mallory", "")


def last(api: Api) -> dict[str, Any]:
    """The newest row."""
    connection = http.client.HTTPConnection("127.0.0.1", api.port, timeout=PATIENCE_S)
    try:
        basic = base64.b64encode(b"guest:guest").decode()
        connection.request("GET", "/audit?limit=1", headers={"Authorization": f"Basic {basic}"})
        row: dict[str, Any] = json.loads(connection.getresponse().read())["acts"][0]
    finally:
        connection.close()
    return row


def test_what_is_done_to_many_messages_is_noted_with_its_count(api: Api) -> None:
    for name in ("from", "to"):
        api.put(f"/queues/%2F/audit-{name}", {"durable": True})
    for _ in range(3):
        publish = {"routing_key": "audit-from", "payload": "x", "payload_encoding": "string", "properties": {}}
        api.post("/exchanges/%2F/amq.default/publish", publish)
    api.post("/queues/%2F/audit-from/move", {"destination": "audit-to", "limit": 2})
    told = {"destination": "audit-to", "limit": 2, "matched": 2, "moved": 2, "outcome": "done"}
    assert told.items() <= last(api).items()
    api.delete("/queues/%2F/audit-to/contents")
    assert {"purged": 2, "outcome": "done"}.items() <= last(api).items()
