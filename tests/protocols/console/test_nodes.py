"""Nodes and reports of the pipeline."""

from playwright.sync_api import expect

from tests.protocols.console.browser import Console, cell, keep
from tests.protocols.management.scene import Api


def test_a_node_tells_what_it_uses_and_keeps(console: Console, api: Api) -> None:
    name = api.get("/overview")["node"]
    with console.open("/nodes") as page:
        assert cell(page, name, "State") == "healthy"
        keep(page, "nodes")
        page.get_by_role("link", name=name).click()
        expect(page.get_by_role("region", name="Journal")).to_contain_text("1 segment")
        expect(page.get_by_role("region", name="Process")).to_contain_text("Python")
        expect(page.get_by_role("region", name="Listeners", exact=True)).to_contain_text("http")
        expect(page.get_by_role("meter", name="Memory")).to_be_visible()
        keep(page, "node")


def test_a_cluster_tells_where_its_definitions_are_and_what_they_do_not_know(console: Console, api: Api) -> None:
    name = api.get("/overview")["node"]
    facts = {"state": "reachable", "standbys": "ANY 1 (b)", "version": 15, "trouble": None}
    groups = [
        {"group": 0, "shards": 3, "definitions": False, "url": "postgresql://db1/leveret", **facts},
        {"group": 1, "shards": 5, "definitions": True, "url": "postgresql://db2/leveret", **facts},
    ]
    own = {"node": name, "linked": "here", "unanswered": None, "draining": False, "shards": 8, "definitions": 7}
    silent = {**own, "node": "gone", "linked": "down", "unanswered": "it refuses connections", "definitions": None}
    told = {
        "cluster": "shop",
        "node": name,
        "definitions": 7,
        "members": [
            {**own, "redis": "none", "troubles": {"definitions": "no answer"}},
            {**silent, "redis": None, "troubles": None},
        ],
        "groups": groups,
        "shards": [],
        "doubts": [{"shard": "3", "queues": 1, "messages": 2}],
    }
    with console.open("/") as page:
        page.route("**/api/cluster", lambda route: route.fulfill(json=told))
        page.goto(f"{console.url}#/nodes")
        expect(page.get_by_text("postgresql://db2/leveret")).to_be_visible()
        assert [cell(page, database, "Definitions") for database in ("db1", "db2")] == ["", "here"]
        expect(page.get_by_role("alert")).to_contain_text(f"{name} may have old definitions: no answer")
        expect(page.get_by_role("alert")).to_contain_text("gone does not answer this node: it refuses connections.")
        expect(page.get_by_role("alert")).to_contain_text("Shard 3 has 1 queue with 2 messages")
        keep(page, "cluster")


def test_a_report_is_shown_and_runs_nothing(console: Console) -> None:
    with console.open("/reports") as page:
        keep(page, "reports")
        page.get_by_role("link", name="monday").click()
        frame = page.frame_locator("iframe.report")
        expect(frame.get_by_role("heading", name="All is well")).to_be_visible()
        expect(page.get_by_role("region", name="Summary")).to_contain_text("none late")
        keep(page, "report")


def test_others_see_neither(limited: Console) -> None:
    with limited.open() as page:
        menu = page.get_by_role("navigation", name="Main")
        expect(menu.get_by_text("Nodes")).to_have_count(0)
        expect(menu.get_by_text("Pipeline reports")).to_have_count(0)
