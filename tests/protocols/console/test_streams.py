"""Streams and their consumer groups: lag, members, reading on from elsewhere."""

import http.client
import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.protocols.console.browser import Console, cell, cell_of, keep
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S

RECORDS = 30
PARTITIONS = 3


def rest(server: ServerProcess, method: str, path: str, body: Any = None) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", server.ports["http"], timeout=PATIENCE_S)
    basic = b64encode(b"guest:guest").decode()
    try:
        headers = {"Authorization": f"Basic {basic}", "Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    assert answer.status < 300, f"{path}: {answer.status} {text!r}"
    return json.loads(text) if text else None


@pytest.fixture
def stream(server: ServerProcess) -> Iterator[str]:
    """A stream with records; one group has read nothing, the other everything."""
    rest(server, "PUT", "/streams/clicks", {"partitions": PARTITIONS})
    for number in range(RECORDS):
        rest(server, "POST", "/streams/clicks/records", {"key": f"k{number}", "payload": f"click {number}"})
    rest(server, "PUT", "/streams/clicks/groups/slow")
    rest(server, "POST", "/streams/clicks/groups/slow/reset", {"to": "earliest"})
    rest(server, "PUT", "/streams/clicks/groups/fast")
    rest(server, "POST", "/streams/clicks/groups/fast/reset", {"to": "latest"})
    rest(server, "POST", "/streams/clicks/groups/fast/join", {"member": "reader-1", "session_seconds": 3_600})
    yield "clicks"
    rest(server, "DELETE", "/streams/clicks")


def test_groups_show_lag_and_members_and_read_on_from_elsewhere(console: Console, stream: str) -> None:
    with console.open("/streams") as page:
        assert cell(page, stream, "Records") == str(RECORDS)
        keep(page, "streams")
        page.get_by_role("link", name=stream).click()
        expect(page.locator("h1")).to_contain_text(stream)
        assert cell(page, "slow", "Lag") == str(RECORDS)
        assert cell(page, "fast", "Lag") == "0"
        assert "reader-1" in cell(page, "fast", "Members")
        keep(page, "stream")
        slow = page.get_by_role("row").filter(has_text="slow")
        slow.get_by_role("button", name="Reset").click()
        page.get_by_label("Read on from").select_option("latest")
        page.get_by_role("button", name="Reset group").click()
        expect(page.locator("#toasts")).to_contain_text("reads on")
        expect(cell_of(page, "slow", "Lag")).to_have_text("0")
        slow.get_by_role("button", name="Forget").click()
        page.get_by_role("button", name="Forget group").click()
        expect(slow).to_have_count(0)


def test_a_stream_is_made_and_deleted(console: Console, server: ServerProcess) -> None:
    with console.open("/streams") as page:
        page.get_by_role("button", name="New stream").click()
        page.get_by_label("Name", exact=False).last.fill("made")
        page.get_by_label("Partitions").fill("2")
        page.get_by_role("button", name="Make stream").click()
        expect(page.get_by_role("region", name="Partitions", exact=True).locator("tbody tr")).to_have_count(2)
        page.get_by_role("button", name="Delete").click()
        page.get_by_label("Type made").fill("made")
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.locator("#toasts")).to_contain_text("is gone")
    assert rest(server, "GET", "/streams")["streams"] == []
