"""Users, permissions and policies: made, changed, taken away, and not shown to those who may not."""

from playwright.sync_api import Page, expect

from tests.protocols.console.browser import Console, cell, keep
from tests.protocols.management.scene import Api
from tests.server_process import ServerProcess


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).last.click()


def test_a_user_is_made_permitted_changed_and_deleted(console: Console, api: Api, server: ServerProcess) -> None:
    with console.open("/users") as page:
        assert "administrator" in cell(page, "guest", "Tags")
        keep(page, "users")
        press(page, "New user")
        page.get_by_label("Name").fill("alice")
        page.get_by_label("Password").fill("through the looking-glass")
        page.get_by_label("Tags").fill("management")
        press(page, "Make user")
        press(page, "Set permission")
        page.get_by_label("Configure").fill("^alice")
        press(page, "Set")
        expect(page.get_by_role("region", name="Permissions", exact=True)).to_contain_text("^alice")
        assert api.get("/permissions/%2F/alice")["configure"] == "^alice"
        press(page, "Restrict keys")
        page.get_by_label("Write").fill("^alice")
        press(page, "Set")
        keys = page.get_by_role("region", name="Keys of topic exchanges", exact=True)
        expect(keys.locator("tbody")).to_contain_text("amq.topic")
        assert api.get("/topic-permissions/%2F/alice")[0]["write"] == "^alice"
        keys.get_by_role("button", name="Clear").click()
        expect(keys.locator("td.empty")).to_be_visible()
        press(page, "Set limits")
        page.get_by_label("Connections").fill("5")
        press(page, "Set limits")
        expect(page.get_by_role("region", name="Limits")).to_contain_text("5")
        assert api.get("/user-limits/alice") == [{"user": "alice", "value": {"max-connections": 5}}]
        press(page, "Change")
        page.get_by_label("Tags").fill("monitoring, policymaker")
        press(page, "Change user")
        expect(page.locator("h1")).to_contain_text("policymaker")
        keep(page, "user")
        alice = Api(server.ports["http"], "alice", "through the looking-glass")
        assert sorted(alice.get("/whoami")["tags"]) == ["monitoring", "policymaker"]
        press(page, "Delete")
        page.get_by_label("Type alice").fill("alice")
        press(page, "Delete")
        expect(page.locator("#toasts")).to_contain_text("alice is gone")
    assert api.call("GET", "/users/alice").status == 404


def test_a_user_who_is_there_is_not_made_again(console: Console) -> None:
    with console.open("/users") as page:
        press(page, "New user")
        page.get_by_label("Name").fill("visitor")
        press(page, "Make user")
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("already")


def test_a_policy_is_set_changed_and_deleted(console: Console, api: Api) -> None:
    with console.open("/policies") as page:
        assert cell(page, "bounded", "Pattern") == "^orders"
        press(page, "Add to policies")
        page.get_by_label("Name").fill("short")
        page.get_by_label("Pattern").fill("^mail$")
        page.get_by_label("Definition").fill('{"message-ttl": 60000}')
        press(page, "Set policy")
        row = page.locator("tbody tr").filter(has_text="short")
        row.get_by_role("button", name="Edit").click()
        page.get_by_label("Priority").fill("7")
        press(page, "Set policy")
        expect(row).to_contain_text("7")
        assert api.get("/policies/%2F/short")["definition"] == {"message-ttl": 60_000}
        row.get_by_role("button", name="Edit").click()
        expect(page.get_by_label("Priority")).to_have_value("7")
        press(page, "Cancel")
        keep(page, "policies")
        row.get_by_role("button", name="Delete").click()
        press(page, "Delete policy")
        expect(row).to_have_count(0)


def test_others_see_no_users_and_change_no_policies(limited: Console) -> None:
    with limited.open("/policies") as page:
        expect(page.locator("tbody tr").filter(has_text="bounded")).to_be_visible()
        expect(page.get_by_role("button", name="Edit")).to_have_count(0)
        expect(page.get_by_role("button", name="Add to")).to_have_count(0)
        expect(page.get_by_role("navigation", name="Main").get_by_text("Users")).to_have_count(0)
        page.goto(f"{limited.url}#/users")
        expect(page.locator("main")).to_contain_text("may not see this page")
