"""Exchanges: bindings, the drawing of where messages go, and the question where a key would go."""

import json

from playwright.sync_api import Page, expect

from tests.protocols.console.browser import Console, cell, keep
from tests.protocols.management.scene import Api


def probe(page: Page, key: str, headers: dict[str, str] | None = None) -> None:
    page.get_by_label("Routing key").first.fill(key)
    page.get_by_label("Headers").fill(json.dumps(headers) if headers else "")
    page.get_by_role("button", name="Look").click()


def test_the_list_leads_to_an_exchange_with_its_drawing(console: Console) -> None:
    with console.open("/exchanges") as page:
        assert cell(page, "shop", "Type") == "topic"
        keep(page, "exchanges")
        page.get_by_role("link", name="shop").click()
        drawing = page.get_by_role("region", name="Routing of shop, drawing")
        expect(drawing.locator("a.queue")).to_have_count(4)
        expect(drawing.locator("a.exchange")).to_have_count(3)
        expect(drawing.locator(".alternate")).to_contain_text("if nothing matches")


def test_a_key_is_followed_through_exchanges_and_headers(console: Console) -> None:
    with console.open("/exchanges/%2F/shop") as page:
        answer = page.get_by_role("region", name="Where would this key go?")
        probe(page, "invoice.new", {"tenant": "t1"})
        expect(answer.get_by_role("listitem")).to_have_text(["billing.invoices"])
        expect(page.locator(".graph a.hit")).to_have_attribute("aria-label", "queue billing.invoices")
        expect(page.locator(".graph .edge.hit")).to_have_count(2)
        keep(page, "exchange")
        probe(page, "weather")
        expect(answer).to_contain_text("Nothing of shop matches: lost gets it.")
        probe(page, "invoice.new", {"tenant": "t2"})
        expect(answer).to_contain_text("To no queue")


def test_the_default_exchange_leads_to_the_queue_of_that_name(console: Console) -> None:
    with console.open("/exchanges/%2F/amq.default") as page:
        probe(page, "mail")
        expect(page.get_by_role("region", name="Where would this key go?").get_by_role("listitem")).to_have_text("mail")


def test_an_exchange_is_made_bound_unbound_and_deleted(console: Console, api: Api) -> None:
    with console.open("/exchanges") as page:
        page.get_by_role("button", name="New exchange").click()
        page.get_by_label("Name").fill("made")
        page.get_by_role("button", name="Make exchange").click()
        page.get_by_role("button", name="Bind", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Its name").fill("mail")
        dialog.get_by_label("Routing key").fill("letters")
        dialog.get_by_role("button", name="Bind").click()
        expect(page.locator(".graph a.queue")).to_have_count(1)
        assert api.get("/exchanges/%2F/made/bindings/source")[0]["routing_key"] == "letters"
        page.get_by_role("button", name="Unbind").click()
        expect(page.locator("td.empty")).to_be_visible()
        page.get_by_role("button", name="Delete").click()
        dialog.get_by_label("Type made").fill("made")
        dialog.get_by_role("button", name="Delete").click()
        expect(page.locator("#toasts")).to_contain_text("is gone")
    assert api.call("GET", "/exchanges/%2F/made").status == 404


def test_who_may_only_look_has_no_buttons(limited: Console) -> None:
    with limited.open("/exchanges/%2F/shop") as page:
        expect(page.get_by_role("button", name="Delete")).to_have_count(0)
        expect(page.get_by_role("button", name="Bind", exact=True)).to_have_count(0)


def test_the_routing_of_a_whole_virtual_host_is_drawn(console: Console) -> None:
    with console.open("/routing") as page:
        drawing = page.get_by_role("region", name="Routing of /, drawing")
        expect(drawing.locator("a.exchange")).to_have_count(3)
        expect(drawing.get_by_label("queue orders.dead", exact=True)).to_be_visible()
        expect(drawing.locator(".dead").first).to_contain_text("dead letters")
        keep(page, "routing")
        page.get_by_label("Search").fill("orders.dead")
        page.keyboard.press("Enter")
        expect(drawing.locator("a")).to_have_count(3)
        drawing.get_by_label("queue orders.dead").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_contain_text("orders.dead")


LEVELS = """async ([ids, edges]) => {
  const { leveled } = await import("./levels.js");
  const { nodes } = leveled([...ids].map((id) => ({ id })), edges.map(([from, to]) => ({ from, to })));
  return Object.fromEntries(nodes.map((node) => [node.id, node.level]));
}"""


def test_drawings_go_to_the_right_and_circles_end(console: Console) -> None:
    with console.open() as page:
        chain = page.evaluate(LEVELS, ["cba", ["ab", "bc", "ac"]])
        assert chain == {"a": 0, "b": 1, "c": 2}
        circle = page.evaluate(LEVELS, ["abc", ["ab", "bc", "ca", "aa"]])
        assert circle == {"a": 0, "b": 1, "c": 2}
