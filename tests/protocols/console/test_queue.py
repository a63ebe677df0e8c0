"""The page of a queue: every part of it, and everything that can be done there."""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from leveret.spark.server import Origin
from tests.protocols.console.browser import Console, cell, keep
from tests.protocols.management.scene import Api


@pytest.fixture
def queue(api: Api) -> Iterator[str]:
    """A queue with three messages, which the test may change."""
    api.put("/queues/%2F/trial", {"durable": True, "arguments": {"x-max-priority": 5}})
    api.put("/queues/%2F/trial.other", {"durable": True})
    for number in range(3):
        send(api, "trial", {"number": number}, tenant=f"t{number}")
    yield "trial"
    for name in ("trial", "trial.other"):
        api.call("DELETE", f"/queues/%2F/{name}")


def send(api: Api, queue: str, body: object, **headers: str) -> None:
    properties = {"content_type": "application/json", "headers": headers, "delivery_mode": 2}
    message = {
        "routing_key": queue,
        "payload": json.dumps(body),
        "payload_encoding": "string",
        "properties": properties,
    }
    assert api.post("/exchanges/%2F/amq.default/publish", message) == {"routed": True}


def ready(page: Page, count: int) -> None:
    """Wait until the page says that so many messages are ready."""
    expect(page.locator(".figures div").first.locator("dd")).to_have_text(str(count))


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).last.click()


def said(page: Page, text: str) -> None:
    expect(page.locator("#toasts")).to_contain_text(text)


def test_figures_charts_and_settings(console: Console) -> None:
    with console.open("/queues/%2F/orders") as page:
        expect(page.get_by_role("region", name="By priority")).to_contain_text("Priority 3")
        expect(page.get_by_role("region", name="Settings")).to_contain_text("bounded")
        expect(page.get_by_role("region", name="Since the start")).to_contain_text("Dead: rejected")
        expect(page.get_by_role("img", name="Messages:")).to_be_visible()
        page.locator(".plot canvas").nth(1).wait_for()
        keep(page, "queue")


def test_messages_are_shown_with_headers_and_readable_bodies(console: Console) -> None:
    with console.open("/queues/%2F/orders?tab=messages") as page:
        first = page.locator("details.message").first
        first.locator("summary").click()
        expect(first.locator("pre")).to_contain_text('"customer": "customer-')
        expect(first).to_contain_text("tenant")
        expect(first).to_contain_text("order.new")
        keep(page, "queue-messages")
        page.get_by_label("Text in the body").fill("customer-5")
        press(page, "Look")
        previews = page.locator("details.message .preview")
        expect(previews.filter(has_not_text="customer-5")).to_have_count(0)
        expect(previews.first).to_contain_text("customer-5")
        expect(page.get_by_role("tabpanel").get_by_role("status").first).to_contain_text(", the next")


def test_bytes_are_shown_in_hexadecimal_and_text_as_text(console: Console) -> None:
    with console.open("/queues/%2F/mail?tab=messages") as page:
        text, data = page.locator("details.message").nth(0), page.locator("details.message").nth(1)
        text.locator("summary").click()
        expect(text.locator("pre")).to_have_text("Grüße aus dem Bau")
        press(page, "Hex")
        expect(text.locator("pre")).to_contain_text("47 72 c3 bc")
        data.locator("summary").click()
        expect(data.locator("pre")).to_contain_text("20 21 22 23")


def test_consumers_and_holders_of_leases(console: Console) -> None:
    with console.open("/queues/%2F/orders?tab=clients") as page:
        leases = page.get_by_role("region", name="Leases").last
        expect(leases.locator("tbody tr")).to_have_count(3)
        expect(leases.locator("tbody tr").first).to_contain_text("packer")
        assert cell(page, "packer", "State") == "active"
        keep(page, "queue-clients")


def test_a_reservation_is_shown_and_released(console: Console, api: Api, queue: str) -> None:
    origin = Origin(f"http://guest:guest@127.0.0.1:{api.port}")
    origin.server.ask("POST", f"/queues/{queue}/reservations/spark", {"max_messages": 2})
    origin.server.close()
    with console.open(f"/queues/%2F/{queue}?tab=clients") as page:
        reservations = page.get_by_role("region", name="Reservations").last
        expect(reservations.locator("tbody td").nth(2)).to_have_text("2")
        keep(page, "queue-reservations")
        press(page, "Release")
        page.get_by_role("dialog").get_by_role("button", name="Release").click()
        expect(reservations).to_contain_text("No query has reserved messages.")


def test_binding_and_unbinding(console: Console, api: Api, queue: str) -> None:
    with console.open(f"/queues/%2F/{queue}?tab=bindings") as page:
        press(page, "Bind to an exchange")
        page.get_by_label("Exchange").select_option("shop")
        page.get_by_label("Routing key").fill("trial.*")
        press(page, "Bind")
        expect(page.get_by_role("cell", name="trial.*")).to_be_visible()
        assert [row["source"] for row in api.get(f"/queues/%2F/{queue}/bindings")] == ["", "shop"]
        press(page, "Unbind")
        expect(page.get_by_role("cell", name="trial.*")).to_have_count(0)


def test_publishing(console: Console, api: Api, queue: str) -> None:
    with console.open(f"/queues/%2F/{queue}") as page:
        press(page, "Publish")
        page.get_by_label("Body").fill("{")
        press(page, "Publish")
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("not JSON")
        page.get_by_label("Body").fill('{"ä": 1}')
        page.get_by_label("Headers").fill('{"by": "hand"}')
        page.get_by_role("spinbutton", name="Priority").fill("5")
        press(page, "Publish")
        said(page, "on the disk")
        ready(page, 4)
    found = api.post(f"/queues/%2F/{queue}/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"})[0]
    assert (found["payload"], found["properties"]["headers"]) == ('{"ä": 1}', {"by": "hand"})


def test_moving_what_a_filter_chooses_after_a_preview(console: Console, api: Api, queue: str) -> None:
    with console.open(f"/queues/%2F/{queue}") as page:
        press(page, "Move")
        page.get_by_label("Destination queue").fill("trial.other")
        page.get_by_label("Only with these headers").fill('{"tenant": "t1"}')
        press(page, "Preview")
        expect(page.get_by_role("dialog").get_by_role("status")).to_have_text("1 message would be moved.")
        keep(page, "queue-move")
        assert api.get("/queues/%2F/trial.other")["messages"] == 0
        press(page, "Move")
        said(page, "Moved 1 message")
        ready(page, 2)
    assert api.get("/queues/%2F/trial.other")["messages"] == 1


def test_redriving_dead_letters_to_where_they_died(console: Console, api: Api) -> None:
    with console.open("/queues/%2F/orders.dead") as page:
        ready(page, 5)
        press(page, "Redrive")
        page.get_by_label("At most so many").fill("2")
        press(page, "Preview")
        expect(page.get_by_role("dialog").get_by_role("status")).to_have_text("2 messages would be moved.")
        press(page, "Redrive")
        said(page, "Moved 2 messages")
        ready(page, 3)
    taken = {"count": 2, "ackmode": "reject_requeue_false", "encoding": "auto"}
    assert len(api.post("/queues/%2F/orders/get", taken)) == 2


def test_pausing_and_resuming(console: Console, api: Api, queue: str) -> None:
    with console.open(f"/queues/%2F/{queue}") as page:
        press(page, "Pause")
        expect(page.get_by_role("heading", level=1)).to_contain_text("paused")
        assert api.get(f"/queues/%2F/{queue}")["state"] == "paused"
        press(page, "Resume")
        expect(page.get_by_role("heading", level=1)).to_contain_text("running")


def test_purging_asks_for_the_name(console: Console, api: Api, queue: str) -> None:
    with console.open(f"/queues/%2F/{queue}") as page:
        press(page, "Purge")
        keep(page, "queue-purge")
        page.get_by_label("Type trial to confirm").fill("trail")
        press(page, "Purge")
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("nothing was done")
        assert api.get(f"/queues/%2F/{queue}")["messages"] == 3
        page.get_by_label("Type trial to confirm").fill("trial")
        press(page, "Purge")
        said(page, "Deleted 3 messages")
        ready(page, 0)


def test_deleting_can_be_called_off(console: Console, api: Api, queue: str) -> None:
    with console.open(f"/queues/%2F/{queue}") as page:
        press(page, "Delete")
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        press(page, "Delete")
        page.get_by_label("Type trial to confirm").fill("trial")
        press(page, "Delete")
        expect(page.get_by_role("heading", level=1)).to_have_text("Queues")
    assert api.call("GET", f"/queues/%2F/{queue}").status == 404


def test_who_may_only_read_sees_what_reading_allows(limited: Console) -> None:
    with limited.open("/queues/%2F/orders") as page:
        expect(page.get_by_role("tab", name="Messages")).to_be_visible()
        expect(page.locator("main .heading button")).to_have_text(["Move", "Redrive", "Purge"])
        page.get_by_role("tab", name="Bindings").click()
        expect(page.get_by_role("cell", name="order.#")).to_be_visible()
        expect(page.get_by_role("button", name="Unbind")).to_have_count(0)


def test_who_may_not_read_sees_no_messages(limited: Console) -> None:
    with limited.open("/queues/%2F/mail") as page:
        expect(page.get_by_role("tab", name="Figures")).to_be_visible()
        expect(page.get_by_role("tab", name="Messages")).to_have_count(0)


def test_a_queue_that_is_not_there_is_said_to_be_so(console: Console) -> None:
    with console.open("/queues/%2F/nowhere") as page:
        expect(page.get_by_role("alert").filter(has_text="there is no queue")).to_be_visible()


def test_tabs_by_the_keyboard_and_on_a_phone(console: Console) -> None:
    with console.open("/queues/%2F/orders", size="phone") as page:
        page.get_by_role("tab", name="Figures").focus()
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("tab", name="Messages")).to_be_focused()
        expect(page.locator("details.message").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        keep(page, "queue-phone")


def test_a_stream_has_what_streams_have(console: Console, api: Api) -> None:
    api.put("/queues/%2F/events", {"durable": True, "arguments": {"x-queue-type": "stream"}})
    with console.open("/queues/%2F/events") as page:
        assert page.locator("main .heading button").all_inner_texts() == ["Publish", "Delete"]
        expect(page.get_by_role("tab", name="Messages")).to_have_count(0)
        expect(page.get_by_role("region", name="By priority")).to_have_count(0)
    api.delete("/queues/%2F/events")
