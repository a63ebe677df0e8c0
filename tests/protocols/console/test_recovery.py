"""A server that goes away and comes back: every page of the console goes on by itself, and the user stays logged in."""

from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.protocols.console.browser import TIMEOUT_MS, cell_of, keep, log_in
from tests.protocols.management.scene import Api
from tests.server_process import ServerProcess

AWAY = "does not answer"
PAGES = (
    ("/", "Overview"),
    ("/queues", "Queues"),
    ("/queues/%2F/orders", "orders"),
    ("/dead-letters", "Dead letters"),
    ("/scheduled", "Scheduled"),
    ("/streams", "Streams"),
    ("/streams/%2F/clicks", "clicks"),
    ("/exchanges", "Exchanges"),
    ("/exchanges/%2F/amq.topic", "amq.topic"),
    ("/routing", "Routing"),
    ("/connections", "Connections"),
    ("/channels", "Channels"),
    ("/nodes", "Nodes"),
    ("/alerts", "Alerts"),
    ("/users", "Users"),
    ("/users/guest", "guest"),
    ("/vhosts/%2F", "/"),
    ("/vhosts", "Virtual hosts"),
    ("/policies", "Policies"),
    ("/audit", "Audit log"),
    ("/definitions", "Definitions"),
    ("/reports", "Pipeline reports"),
    ("/tokens", "Tokens"),
)


class Window:
    """Pages of one user who is logged in; no script of theirs may fail."""

    def __init__(self, browser: Browser, server: ServerProcess) -> None:
        self.url = f"http://127.0.0.1:{server.ports['http']}/console/"
        self.context: BrowserContext = browser.new_context()
        self.context.set_default_timeout(TIMEOUT_MS)
        self.failures: list[str] = []
        self.context.on("weberror", lambda error: self.failures.append(str(error.error)))
        log_in(self.context.new_page(), self.url, "guest", "guest")

    def open(self, path: str = "/") -> Page:
        page = self.context.new_page()
        page.goto(f"{self.url}#{path}")
        page.locator("main h1").wait_for()
        return page


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that a test may stop."""
    report = tmp_path / "reports" / "monday"
    report.mkdir(parents=True)
    (report / "index.html").write_text("<!doctype html><title>Monday</title>")
    with ServerProcess(tmp_path, "--reports-dir", str(report.parent), "--alerts-every-s", "1") as running:
        api = Api(running.ports["http"])
        api.put("/queues/%2F/orders", {"durable": True})
        api.put("/queues/%2F/clicks", {"durable": True, "arguments": {"x-queue-type": "stream"}})
        yield running


@pytest.fixture
def window(browser: Browser, server: ServerProcess) -> Iterator[Window]:
    opened = Window(browser, server)
    yield opened
    opened.context.close()
    assert not opened.failures


def start_again(server: ServerProcess) -> None:
    """Start it at the port that the pages know."""
    server.start("--http-port", str(server.ports["http"]))


def test_every_page_recovers_when_the_server_comes_back(window: Window, server: ServerProcess) -> None:
    pages = [window.open(path) for path, _ in PAGES]
    server.stop()
    for page in pages:
        expect(page.locator("#freshness")).to_contain_text(AWAY)
        expect(page.locator("main")).to_have_class("stale")
    keep(pages[1], "recovery-away")
    start_again(server)
    for page, (_, title) in zip(pages, PAGES, strict=True):
        expect(page.locator("main")).not_to_have_class("stale")
        expect(page.locator("#freshness")).to_be_empty()
        expect(page.locator("main h1")).to_contain_text(title)
    keep(pages[1], "recovery-back")


def test_pages_that_were_not_loaded_come_when_the_server_does(window: Window, server: ServerProcess) -> None:
    menu, queues = window.open(), window.open("/queues")
    server.stop()
    menu.get_by_role("link", name="Policies", exact=True).click()
    expect(menu.get_by_role("alert").filter(has_text=AWAY)).to_be_visible()
    queues.get_by_role("link", name="orders", exact=True).click()
    expect(queues.get_by_role("alert").filter(has_text=AWAY)).to_be_visible()
    keep(menu, "recovery-not-loaded")
    start_again(server)
    expect(menu.locator("main h1")).to_have_text("Policies")
    expect(queues.locator("main h1")).to_contain_text("orders")


def test_a_page_that_is_opened_too_early_comes_when_the_server_answers(window: Window) -> None:
    page = window.open()
    page.route("**/console/session", lambda route: route.abort())
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text(AWAY)
    page.unroute("**/console/session")
    expect(page.locator("main h1")).to_have_text("Overview")


def test_who_has_logged_out_stays_so_after_a_restart(browser: Browser, window: Window, server: ServerProcess) -> None:
    page = window.open()
    cookies = window.context.storage_state()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Password")).to_be_visible()
    server.stop()
    start_again(server)
    with browser.new_context(storage_state=cookies) as before:
        late = before.new_page()
        late.goto(window.url)
        expect(late.get_by_label("Password")).to_be_visible()


def test_firing_alerts_are_on_every_page(window: Window, server: ServerProcess) -> None:
    rule = {
        "figure": "depth_max",
        "limit": 1,
        "for_s": 0,
        "severity": "critical",
        "queue": "orders",
        "says": "Too many.",
    }
    Api(server.ports["http"]).put("/alerts/rules/deep", rule)
    with pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        channel = connection.channel()
        for _ in range(3):
            channel.basic_publish("", "orders", b"x")
    page = window.open()
    expect(page.get_by_role("navigation", name="Main").get_by_role("link", name="Alerts")).to_have_text("Alerts 1")
    expect(page).to_have_title("(1) Overview · Leveret")
    expect(page.locator(".alarm")).to_have_text("deep: orders. Too many.")
    keep(page, "overview-firing")
    page.get_by_role("link", name="Queues", exact=True).click()
    expect(page).to_have_title("(1) Queues · Leveret")
    expect(cell_of(page, "orders", "Name").get_by_role("link", name="deep")).to_be_visible()
    keep(page, "queues-firing")
