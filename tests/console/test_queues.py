"""The list of queues: searched, sorted, paged by the server."""

from playwright.sync_api import expect

from tests.console.browser import Console, cell, keep
from tests.management.scene import Api


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
