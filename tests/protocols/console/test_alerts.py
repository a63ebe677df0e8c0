"""The alerts: seen, silenced, changed, told to a receiver that is tried out, and not changed by those who may not."""

from playwright.sync_api import Page, expect

from tests.observability.alerting.sinks import WebSink
from tests.protocols.console.browser import Console, cell, keep
from tests.protocols.management.scene import Api


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).last.click()


def test_a_rule_is_set_fires_and_is_silenced(console: Console, api: Api) -> None:
    with console.open("/alerts") as page:
        now, silences = (page.get_by_role("region", name=name, exact=True) for name in ("Now", "Silences"))
        assert "10,000" in cell(page, "queue_depth", "Fires when")
        press(page, "Add rule")
        page.get_by_label("Name").fill("invoices")
        page.get_by_label("Figure").select_option("waiting_max")
        page.get_by_label("Limit").fill("1")
        page.get_by_label("For so many seconds").fill("0")
        page.get_by_label("Severity").select_option("critical")
        page.get_by_label("Queues").fill("mai*")
        press(page, "Set rule")
        alert = now.get_by_role("row").filter(has_text="invoices")
        expect(alert).to_contain_text("firing")
        expect(alert.get_by_role("link", name="mail")).to_be_visible()
        alert.get_by_role("button", name="Silence").click()
        page.get_by_label("Why").fill("we know")
        press(page, "Silence")
        expect(alert).to_contain_text("silenced")
        keep(page, "alerts")
        expect(silences).to_contain_text("we know")
        silences.get_by_role("button", name="End").click()
        expect(alert).to_contain_text("firing")
        rule = page.get_by_role("region", name="Rules", exact=True).get_by_role("row").filter(has_text="invoices")
        rule.get_by_role("button", name="Edit").click()
        expect(page.get_by_label("Limit")).to_have_value("1")
        page.get_by_label("Limit").fill("1000")
        page.get_by_label("Over when down to").fill("")
        press(page, "Set rule")
        expect(alert).to_have_count(0)
        assert api.get("/alerts/rules/invoices")["limit"] == 1000
        rule.get_by_role("button", name="Delete").click()
        press(page, "Delete rule")
        expect(rule).to_have_count(0)
        history = page.get_by_role("region", name="History", exact=True)
        ended = history.get_by_role("row").filter(has_text="resolved").filter(has_text="invoices")
        expect(ended.first).to_contain_text("mail")


def test_a_receiver_is_added_tried_and_deleted_and_its_secret_is_not_shown(console: Console, api: Api) -> None:
    with WebSink() as sink, console.open("/alerts") as page:
        press(page, "Add webhook")
        page.get_by_label("Name").fill("ops")
        page.get_by_label("URL").fill(sink.url)
        page.get_by_label("Authorization").fill("Bearer open sesame")
        page.get_by_role("textbox", name="Rules").fill("nothing*")
        press(page, "Set receiver")
        row = page.get_by_role("region", name="Receivers", exact=True).get_by_role("row").filter(has_text="ops")
        row.get_by_role("button", name="Test").click()
        expect(page.locator("#toasts")).to_contain_text("took the test")
        assert sink.next().headers["Authorization"] == "Bearer open sesame"
        row.get_by_role("button", name="Edit").click()
        expect(page.get_by_label("Authorization")).to_have_value("")
        page.get_by_label("At least").select_option("critical")
        press(page, "Set receiver")
        expect(row).to_contain_text("critical")
        row.get_by_role("button", name="Test").click()
        assert sink.next().headers["Authorization"] == "Bearer open sesame"
        assert "s3cret" not in page.content()
        keep(page, "alerts-receivers")
        row.get_by_role("button", name="Delete").click()
        press(page, "Delete receiver")
        expect(row).to_have_count(0)
    assert api.get("/alerts/receivers") == []


def test_a_receiver_that_is_not_there_is_told_to_whoever_tries_it(console: Console, api: Api) -> None:
    api.put("/alerts/receivers/gone", {"kind": "slack", "url": "http://127.0.0.1:9/", "rules": ["nothing*"]})
    with console.open("/alerts") as page:
        row = page.get_by_role("region", name="Receivers", exact=True).get_by_role("row").filter(has_text="gone")
        row.get_by_role("button", name="Test").click()
        expect(page.locator("#toasts")).to_contain_text("cannot be reached")
        expect(row).to_contain_text("failing")
    api.delete("/alerts/receivers/gone")


def test_others_look_and_change_nothing(limited: Console) -> None:
    with limited.open("/alerts") as page:
        expect(page.locator("tbody tr").filter(has_text="queue_depth")).to_be_visible()
        expect(page.get_by_role("region", name="Receivers", exact=True)).to_have_count(0)
        for name in ("Edit", "Silence", "New silence", "Add rule", "Test"):
            expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
