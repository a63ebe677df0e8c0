"""The list with 100,000 queues: made by a broker in this process, then served."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

import leveret
from tests.protocols.console.browser import Console, keep
from tests.server_process import ServerProcess

QUEUES = 100_000
PAGE_ROWS = 50


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Console]:
    """The console of a server with many queues, one of which is full."""
    server = ServerProcess(tmp_path_factory.mktemp("crowded"))
    with leveret.open(server.data, sync="never") as broker:
        with broker.runtime as core:
            for number in range(QUEUES):
                core.declare_queue("/", f"tenant-{number % 1_000:03d}.jobs-{number:06d}", {}, durable=True)
        broker.queue("tenant-777.jobs-077777").send_many([b"job"] * 7)
    with server:
        yield Console(browser, server.ports["http"])


def test_a_hundred_thousand_queues_are_searched_sorted_and_paged(crowded: Console) -> None:
    with crowded.open("/queues") as page:
        pages, rows = page.get_by_role("navigation", name="Pages"), page.locator("tbody tr")
        expect(pages).to_contain_text("1 to 50 of 100,000")
        expect(rows).to_have_count(PAGE_ROWS)
        page.get_by_role("button", name="Ready").click()
        expect(rows.first).to_contain_text("tenant-777.jobs-077777")
        keep(page, "queues-many")
        page.get_by_role("button", name="Next").click()
        expect(pages).to_contain_text("51 to 100 of 100,000")
        page.get_by_role("searchbox", name="Search").fill("tenant-042")
        expect(pages).to_contain_text("1 to 50 of 100 (100,000 in all)")
        page.get_by_role("button", name="Publish").click()
        expect(page.locator("th[aria-sort=descending]")).to_have_text("Publish")


def test_the_overview_is_that_of_all_of_them(crowded: Console) -> None:
    with crowded.open() as page:
        expect(page.get_by_role("link", name="100,000")).to_be_visible()
        expect(page.locator(".figures div").first.locator("dd")).to_have_text("7")
