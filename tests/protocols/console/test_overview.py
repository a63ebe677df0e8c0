"""The overview: figures, charts that grow, resources."""

import re

from playwright.sync_api import Page, Route, expect

from tests.protocols.console.browser import Console, keep
from tests.protocols.management.scene import Api


def figure(page: Page, name: str) -> str:
    return page.locator(".figures div").filter(has_text=re.compile(f"^{name}")).locator("dd").inner_text()


def test_the_figures_are_those_of_the_broker(console: Console, api: Api) -> None:
    with console.open() as page:
        assert figure(page, "Queues") == str(api.get("/overview")["object_totals"]["queues"])
        assert figure(page, "Connections") == "1"
        assert figure(page, "Consumers") == "2"
        expect(page.get_by_role("meter", name="Memory")).to_be_visible()
        page.locator(".plot canvas").nth(1).wait_for()
        keep(page, "overview")


def test_it_stays_true_while_somebody_looks(console: Console, api: Api) -> None:
    with console.open() as page:
        page.clock.install()
        page.reload()
        page.locator("main h1").wait_for()
        before = figure(page, "Queues")
        api.put("/queues/%2F/passing", {"durable": False})
        try:
            page.clock.run_for(5_100)
            expect(page.locator(".figures").nth(1)).to_contain_text(str(int(before) + 1))
        finally:
            api.delete("/queues/%2F/passing")


def test_an_alarm_is_seen(console: Console) -> None:
    def short(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(json=[{**row, "disk_free_alarm": True} for row in answer.json()])

    with console.open("/queues") as page:
        page.route("**/api/nodes", short)
        page.get_by_role("link", name="Overview").click()
        expect(page.get_by_role("alert")).to_contain_text("Disk space is short")
        keep(page, "overview-alarm")


def test_figures_that_are_not_of_now_are_marked(console: Console) -> None:
    with console.open() as page:
        page.clock.install()
        page.reload()
        page.locator("main h1").wait_for()
        page.route("**/api/overview?*", lambda route: route.fulfill(status=503, json={"reason": "stopping"}))
        page.clock.run_for(5_100)
        expect(page.locator("#freshness")).to_have_text(re.compile(r"Last updated .*:\d\d\. stopping"))
        page.unroute("**/api/overview?*")
        page.clock.run_for(5_100)
        expect(page.locator("#freshness")).to_have_text("")


def test_it_is_readable_in_the_dark_and_on_a_phone(console: Console) -> None:
    with console.open(dark=True) as page:
        page.locator(".plot canvas").nth(1).wait_for()
        keep(page, "overview-dark")
    with console.open(size="phone") as page:
        page.locator(".plot canvas").nth(1).wait_for()
        keep(page, "overview-phone")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_who_is_no_monitor_sees_no_resources(limited: Console) -> None:
    with limited.open() as page:
        expect(page.get_by_role("meter")).to_have_count(0)
        expect(page.get_by_role("heading", name="Listening")).to_be_visible()
