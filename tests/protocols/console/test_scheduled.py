"""Scheduled messages: of all queues, of one, cancelled."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.protocols.console.browser import Console, cell, keep
from tests.protocols.console.test_queue import press, said
from tests.server_process import ServerProcess

PAGE = "/scheduled"


@pytest.fixture
def later(server: ServerProcess) -> Iterator[list[str]]:
    """Three messages that are due later, in two queues."""
    with server.client() as broker:
        mail, orders = broker.queue("mail", create=False), broker.queue("orders", create=False)
        yield [orders.send("a", delay=3_600), mail.send("b", delay=600), mail.send("c", delay=7_200)]
        for queue in (mail, orders):
            for each in queue.scheduled():
                queue.cancel(each.id)


def test_they_are_listed_by_their_time_and_by_queue(console: Console, later: list[str]) -> None:
    with console.open(PAGE) as page:
        ids = page.locator("tbody tr td:nth-child(5)")
        expect(ids).to_have_text([later[1], later[0], later[2]])
        assert cell(page, later[1], "Due").startswith("in 9 m")
        keep(page, "scheduled")
        page.get_by_label("Queue").select_option("mail")
        expect(ids).to_have_text([later[1], later[2]])
        page.get_by_role("link", name="mail").first.click()
        expect(page.locator("details.message")).to_have_count(2)
        expect(page.get_by_label("State")).to_have_value("scheduled")


def test_they_are_cancelled(console: Console, later: list[str], server: ServerProcess) -> None:
    with console.open(PAGE) as page:
        page.locator("tbody tr").filter(has_text=later[0]).get_by_role("checkbox").check()
        press(page, "Cancel messages (1)")
        press(page, "Remove messages")
        said(page, "Cancelled 1 message.")
        press(page, "Select all")
        press(page, "Cancel messages (2)")
        press(page, "Remove messages")
        said(page, "Cancelled 2 messages.")
        expect(page.locator("td.empty")).to_be_visible()
    with server.client() as broker:
        assert broker.queue("mail", create=False).scheduled() == []


def test_who_may_only_look_cancels_nothing(limited: Console, later: list[str]) -> None:
    with limited.open(PAGE) as page:
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.locator("tbody").get_by_role("checkbox")).to_be_disabled()
