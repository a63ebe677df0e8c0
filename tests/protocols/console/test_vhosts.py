"""Virtual hosts: made, changed, limited, deleted."""

from playwright.sync_api import expect

from tests.protocols.console.browser import Console, cell, keep
from tests.protocols.console.test_queue import press, said
from tests.protocols.management.scene import Api


def test_a_virtual_host_is_made_changed_limited_and_deleted(console: Console, api: Api) -> None:
    with console.open("/vhosts") as page:
        press(page, "New virtual host")
        page.get_by_label("Name").fill("made")
        page.get_by_label("Description").fill("for trials")
        press(page, "Make virtual host")
        expect(page.get_by_role("region", name="Details")).to_contain_text("for trials")
        expect(page.get_by_role("region", name="Permissions", exact=True)).to_contain_text("guest")
        press(page, "Change")
        page.get_by_label("Tags").fill("test, small")
        press(page, "Change")
        expect(page.get_by_role("region", name="Details")).to_contain_text("small")
        press(page, "Set limits")
        page.get_by_label("Queues").fill("3")
        press(page, "Set limits")
        expect(page.get_by_role("region", name="Limits")).to_contain_text("3")
        assert api.get("/vhost-limits/made") == [{"vhost": "made", "value": {"max-queues": 3}}]
        keep(page, "vhost")
        press(page, "Set limits")
        page.get_by_label("Queues").fill("")
        press(page, "Set limits")
        expect(page.get_by_role("region", name="Limits")).not_to_contain_text("3")
        page.get_by_role("link", name="Virtual hosts").first.click()
        page.locator("h1", has_text="Virtual hosts").wait_for()
        assert cell(page, "made", "Description") == "for trials"
        keep(page, "vhosts")
        page.get_by_role("link", name="made").click()
        press(page, "Delete")
        page.get_by_label("Type made").fill("made")
        press(page, "Delete")
        said(page, "made is gone")
    assert api.call("GET", "/vhosts/made").status == 404


def test_others_see_the_list_and_change_nothing(limited: Console) -> None:
    with limited.open("/vhosts") as page:
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.get_by_role("button", name="New virtual host")).to_have_count(0)
        expect(page.locator("tbody").get_by_role("link")).to_have_count(0)
