"""Dead letters: grouped, looked at, redriven and deleted, as groups and one by one."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.protocols.console.browser import Console, keep
from tests.protocols.console.test_queue import press, said, send
from tests.protocols.management.scene import Api

PAGE = "/dead-letters"


@pytest.fixture
def dead(api: Api) -> Iterator[str]:
    """A queue with four dead letters of one queue, and one of another."""
    grave = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "trial.dead"}
    api.put("/queues/%2F/trial", {"durable": True, "arguments": grave})
    api.put("/queues/%2F/trial.dead", {"durable": True})
    for number in range(4):
        send(api, "trial", {"number": number})
    api.post("/queues/%2F/trial/get", {"count": 4, "ackmode": "reject_requeue_false", "encoding": "auto"})
    api.put("/queues/%2F/trial.full", {"durable": True, "arguments": {**grave, "x-max-length": 0}})
    send(api, "trial.full", "no room")
    api.put("/queues/%2F/trial.other", {"durable": True})
    yield "trial.dead"
    for name in ("trial", "trial.full", "trial.other", "trial.dead"):
        api.call("DELETE", f"/queues/%2F/{name}")


def group(page: Page, *texts: str) -> Locator:
    found = page.locator("tbody tr")
    for text in texts:
        found = found.filter(has_text=text)
    return found


def messages(api: Api, queue: str) -> int:
    """How many messages are in a queue."""
    return int(api.get(f"/queues/%2F/{queue}")["messages"])


def test_groups_are_told_by_reason_and_origin(console: Console, dead: str) -> None:
    with console.open(PAGE) as page:
        expect(group(page, "rejected", "orders.dead")).to_contain_text("5")
        expect(group(page, "rejected", dead)).to_contain_text("4")
        expect(group(page, "no room", "trial.full")).to_have_count(1)
        group(page, "rejected", "orders.dead").get_by_role("button", name="Look").click()
        first = page.locator("details.message").first
        first.locator("summary").click()
        expect(first.locator("pre")).to_contain_text('"customer": "customer-')
        expect(first).to_contain_text("x-death")
        keep(page, "dead-letters")


def test_a_group_is_counted_and_redriven(console: Console, api: Api, dead: str) -> None:
    with console.open(PAGE) as page:
        redrive = page.get_by_role("button", name="Redrive")
        expect(redrive).to_be_disabled()
        group(page, "rejected", dead).get_by_role("checkbox").check()
        redrive.click()
        press(page, "Preview")
        expect(page.get_by_role("dialog")).to_contain_text("4 messages would be moved.")
        press(page, "Redrive")
        said(page, "Moved 4 messages")
        expect(group(page, "rejected", dead)).to_have_count(0)
    assert (messages(api, "trial"), messages(api, dead)) == (4, 1)


def test_messages_are_redriven_and_deleted_one_by_one(console: Console, api: Api, dead: str) -> None:
    with console.open(PAGE) as page:
        group(page, "rejected", dead).get_by_role("button", name="Look").click()
        boxes = page.locator("details.message").get_by_role("checkbox")
        boxes.nth(0).check()
        page.get_by_role("button", name="Delete messages").click()
        press(page, "Delete")
        said(page, "Deleted 1 message.")
        expect(boxes).to_have_count(3)
        boxes.nth(0).check()
        boxes.nth(1).check()
        page.get_by_role("button", name="Redrive messages (2)").click()
        page.get_by_label("To this queue instead").fill("trial.other")
        press(page, "Redrive")
        said(page, "Moved 2 messages.")
        expect(boxes).to_have_count(1)
    assert (messages(api, dead), messages(api, "trial.other")) == (2, 2)


def test_groups_are_deleted_by_the_keyboard(console: Console, api: Api, dead: str) -> None:
    with console.open(PAGE) as page:
        for box in group(page, dead).get_by_role("checkbox").all():
            box.focus()
            page.keyboard.press("Space")
        page.get_by_role("button", name="Delete (2)").focus()
        page.keyboard.press("Enter")
        press(page, "Preview")
        expect(page.get_by_role("dialog")).to_contain_text("5 messages would be deleted.")
        press(page, "Delete")
        said(page, "Deleted 5 messages.")
    assert (messages(api, "trial"), messages(api, dead)) == (0, 0)


def test_who_may_read_no_grave_sees_none(limited: Console) -> None:
    with limited.open(PAGE) as page:
        expect(page.locator("td.empty")).to_have_text("There are no dead letters.")
