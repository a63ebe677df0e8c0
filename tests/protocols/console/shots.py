"""Every picture of the console: of which page, and after what was done there."""

from collections.abc import Callable
from typing import NamedTuple

from playwright.sync_api import Page

from tests.sources import ROOT

FOLDER = ROOT / "docs" / "screenshots"
BYTES_MAX = 150_000
LIVE_S = 11  # in which a page asks twice


class Shot(NamedTuple):
    """A picture: of which page, after what was done there."""

    path: str
    act: Callable[[Page], None] | None = None
    size: str = "desktop"
    dark: bool = False


def probe(page: Page) -> None:
    """Ask where a key would go."""
    page.get_by_label("Routing key").first.fill("order.paid")
    page.get_by_role("button", name="Look").click()
    page.locator(".graph a.hit").first.wait_for()


def open_message(page: Page) -> None:
    """Open the first message."""
    page.locator("details.message summary").first.click()
    page.locator("details.message pre").first.wait_for()


def open_group(page: Page) -> None:
    """Choose two groups of dead letters, and look into the first one."""
    for box in page.locator("tbody").get_by_role("checkbox").all()[:2]:
        box.check()
    page.get_by_role("button", name="Look", exact=True).first.click()
    page.locator("details.message").first.wait_for()
    page.evaluate("scrollTo(0, 0)")


def preview_redrive(page: Page) -> None:
    """Ask how many messages a redrive would move."""
    page.get_by_role("button", name="Redrive", exact=True).click()
    page.get_by_label("Only with this routing key").fill("order.new")
    page.get_by_role("button", name="Preview").click()
    page.get_by_text("would be moved").wait_for()


def grow(page: Page) -> None:
    """Let the charts of a page grow."""
    page.wait_for_timeout(LIVE_S * 1_000)


SHOTS: dict[str, Shot] = {
    "overview": Shot("/"),
    "queues": Shot("/queues?sort=messages&reverse=true"),
    "queue": Shot("/queues/%2F/orders"),
    "queue-messages": Shot("/queues/%2F/orders.dead?tab=messages", open_message),
    "queue-clients": Shot("/queues/%2F/shipping?tab=clients"),
    "queue-redrive": Shot("/queues/%2F/orders.dead", preview_redrive),
    "dead-letters": Shot("/dead-letters", open_group),
    "scheduled": Shot("/scheduled"),
    "streams": Shot("/streams"),
    "stream": Shot("/streams/%2F/clicks"),
    "exchanges": Shot("/exchanges"),
    "exchange": Shot("/exchanges/%2F/shop", probe),
    "routing": Shot("/routing"),
    "alerts": Shot("/alerts"),
    "connections": Shot("/connections"),
    "channels": Shot("/channels"),
    "nodes": Shot("/nodes"),
    "reports": Shot("/reports"),
    "users": Shot("/users"),
    "user": Shot("/users/web"),
    "tokens": Shot("/tokens"),
    "vhosts": Shot("/vhosts"),
    "vhost": Shot("/vhosts/staging"),
    "policies": Shot("/policies"),
    "definitions": Shot("/definitions"),
    "audit": Shot("/audit?text=users"),
    "overview-dark": Shot("/", dark=True),
    "routing-dark": Shot("/routing", dark=True),
    "queue-phone": Shot("/queues/%2F/orders", size="phone"),
    "dead-letters-phone": Shot("/dead-letters", size="phone", dark=True),
}
CLUSTER: dict[str, Shot] = {
    "cluster": Shot("/nodes"),
    "cluster-dark": Shot("/nodes", dark=True),
    "cluster-phone": Shot("/nodes", size="phone"),
}
"""Pages of a node of a cluster."""
LINKED: dict[str, Callable[[Page], None] | None] = {"connection": None, "node": grow}
"""Pages whose addresses are not known before: of the first row of a list."""
