"""The list of queues: searched, sorted, paged by the server."""

from urllib.parse import quote

from playwright.sync_api import expect

from tests.protocols.console.browser import Console, cell, keep
from tests.protocols.management.scene import Api


def test_every_queue_has_its_figures(console: Console) -> None:
    with console.open("/queues") as page:
        assert cell(page, "orders.dead", "Ready") == "5"
        assert cell(page, "billing.invoices", "Type") == "quorum"
        expect(page.get_by_role("navigation", name="Pages")).to_contain_text("1 to 5 of 5")
        keep(page, "queues")


def test_searching_narrows_the_list_and_stays_in_the_address(console: Console) -> None:
    with console.open("/queues") as page:
        page.get_by_role("searchbox", name="Search").fill("ORD")
        expect(page.get_by_role("navigation", name="Pages")).to_contain_text("1 to 2 of 2 (5 in all)")
        page.reload()
        expect(page.get_by_role("searchbox", name="Search")).to_have_value("ORD")
        expect(page.locator("tbody tr")).to_have_count(2)


def test_a_heading_sorts(console: Console) -> None:
    with console.open("/queues") as page:
        page.get_by_role("button", name="Ready").click()
        expect(page.locator("th[aria-sort=descending]")).to_have_text("Ready")
        expect(page.locator("tbody tr").first).to_contain_text("orders")
        page.get_by_role("button", name="Ready").click()
        expect(page.locator("th[aria-sort=ascending]")).to_have_text("Ready")


def test_a_queue_is_made_and_a_mistake_is_explained(console: Console, api: Api) -> None:
    with console.open("/queues") as page:
        page.get_by_role("button", name="New queue").click()
        page.get_by_label("Name").fill("made")
        page.get_by_label("Arguments").fill("{")
        page.get_by_role("button", name="Make queue").click()
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("not JSON")
        page.get_by_label("Arguments").fill('{"x-max-priority": 3}')
        page.get_by_role("button", name="Make queue").click()
        expect(page.get_by_role("dialog")).to_have_count(0)
    assert api.get("/queues/%2F/made")["arguments"]["x-max-priority"] == 3
    api.delete("/queues/%2F/made")


def test_who_may_make_nothing_is_not_asked_to(limited: Console) -> None:
    with limited.open("/queues") as page:
        expect(page.locator("tbody tr")).to_have_count(5)
        expect(page.get_by_role("button", name="New queue")).to_have_count(0)


def test_names_and_bodies_of_others_are_text(console: Console, api: Api) -> None:
    name = "<img src=x onerror=alert(1)>"
    path = f"/queues/%2F/{quote(name, safe='')}"
    api.put(path, {"durable": True})
    message = {
        "routing_key": name,
        "payload": name,
        "payload_encoding": "string",
        "properties": {"headers": {name: name}},
    }
    api.post("/exchanges/%2F/amq.default/publish", message)
    try:
        with console.open("/queues") as page:
            page.get_by_role("link", name=name).click()
            expect(page.get_by_role("heading", level=1)).to_contain_text(name)
            page.get_by_role("tab", name="Messages").click()
            page.locator("details.message summary").click()
            expect(page.locator("details.message pre")).to_have_text(name)
            expect(page.locator("main img")).to_have_count(0)
    finally:
        api.delete(path)
