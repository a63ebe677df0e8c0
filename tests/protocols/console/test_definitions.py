"""Definitions as files in a browser, and the log of who changed what."""

import json
from pathlib import Path

from playwright.sync_api import expect

from tests.protocols.console.browser import Console, keep
from tests.protocols.management.scene import Api


def test_what_is_exported_can_be_imported(console: Console, api: Api, tmp_path: Path) -> None:
    with console.open("/definitions") as page:
        with page.expect_download() as download:
            page.get_by_role("button", name="Export").click()
        file = json.loads(download.value.path().read_text())
        assert "orders" in {row["name"] for row in file["queues"]}
        path = tmp_path / "new.json"
        queue = {"name": "imported", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
        path.write_text(json.dumps({"queues": [queue]}))
        page.get_by_label("File").set_input_files(path)
        page.get_by_role("button", name="Preview").click()
        imported = page.get_by_role("region", name="Import")
        expect(imported).to_contain_text("The file has 1 queue.")
        page.get_by_role("button", name="Import").click()
        expect(imported).to_contain_text("All of it is there now.")
        keep(page, "definitions")
    assert api.get("/queues/%2F/imported")["durable"]
    api.delete("/queues/%2F/imported")


def test_a_file_that_is_none_is_refused_with_a_sentence(console: Console, tmp_path: Path) -> None:
    path = tmp_path / "none.json"
    path.write_text("[1]")
    with console.open("/definitions") as page:
        page.get_by_label("File").set_input_files(path)
        page.get_by_role("button", name="Import").click()
        expect(page.get_by_role("region", name="Import").get_by_role("alert")).to_contain_text("no definitions")


def test_the_audit_log_tells_who_changed_what(console: Console, api: Api) -> None:
    api.put("/queues/%2F/noted", {"durable": True})
    api.delete("/queues/%2F/noted")
    with console.open("/audit") as page:
        keep(page, "audit")
        page.get_by_role("searchbox", name="Search").fill("queues/%2f/noted")
        expect(page.locator("tbody tr")).to_have_count(2)
        expect(page.locator("tbody tr").first).to_contain_text("DELETE")
        page.get_by_label("Log").select_option("refusals")
        expect(page.locator("td.empty")).to_be_visible()
        page.get_by_label("Log").select_option("administration")
        expect(page.locator("tbody tr")).to_have_count(2)
        page.get_by_label("By user").fill("nobody")
        expect(page.locator("td.empty")).to_be_visible()


def test_only_administrators_have_these_pages(limited: Console) -> None:
    for path in ("/definitions", "/audit"):
        with limited.open(path) as page:
            expect(page.locator("main")).to_contain_text("may not see this page")
