"""Real nodes for operators: RabbitMQ's command line, our own, and the console in a browser."""

import subprocess
import sys

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.cluster.processes import Nodes
from tests.parts import need_program, need_rabbitmqadmin
from tests.protocols.console.browser import Console, cell, keep, launch
from tests.protocols.management.scene import Api
from tests.waiting import PATIENCE_S

TEXT = {"payload": "hello", "payload_encoding": "string", "properties": {"delivery_mode": 2}}


@pytest.fixture
def pair(nodes: Nodes) -> Nodes:
    """Two nodes, and a queue with a message in it."""
    nodes.start("a", "b")
    api = Api(nodes.http_port("a"))
    api.put("/queues/%2F/orders", {"durable": True})
    api.post("/exchanges/%2F/amq.default/publish", {**TEXT, "routing_key": "orders"})
    return nodes


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_operators_use_any_node(pair: Nodes) -> None:
    admin = [*need_rabbitmqadmin(), "--host=127.0.0.1", f"--port={pair.http_port('b')}"]
    assert "| orders | 1" in run(*admin, "list", "queues", "name", "messages")
    assert "hello" in run(*admin, "get", "queue=orders")
    run(*admin, "declare", "user", "name=ada", "password=right-one", "tags=monitoring")
    assert Api(pair.http_port("a"), "ada", "right-one").get("/nodes")[1]["running"]
    url = f"http://guest:guest@127.0.0.1:{pair.http_port('b')}"
    for words in (["top", "--once"], ["streams", "create", "clicks"], ["cluster", "status"]):
        run(sys.executable, "-m", "leveret", *words, "--url", url)
    need_program("chromium")
    with sync_playwright() as playwright:
        browser = launch(playwright)
        console = Console(browser, pair.http_port("b"))
        with console.open("/audit?text=users") as page:
            assert cell(page, "PUT /api/users/ada", "Node") == "b"
        with console.open("/nodes") as page:
            assert cell(page, "here", "State") == "healthy"
            assert cell(page, "here", "Redis") == "not configured"
            assert cell(page, "postgresql://", "State") == "reachable"
            expect(page.get_by_role("region", name="Shards", exact=True)).to_contain_text("active")
            keep(page, "cluster")
            assert cell(page, "active", "Group") == "0"
            page.get_by_role("row", name="a healthy").get_by_role("button", name="Drain").click()
            page.get_by_role("dialog").get_by_role("button", name="Drain").click()
            expect(page.get_by_role("row", name="a drained")).to_be_visible()
        browser.close()
    shards = Api(pair.http_port("a")).get("/cluster")["shards"]
    assert {row["owner"] for row in shards} == {"b"}
