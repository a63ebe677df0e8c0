"""Tokens and access keys: the secret is shown once, and is good for what it says."""

from playwright.sync_api import Page, expect

from tests.protocols.console.browser import Console, keep
from tests.protocols.console.test_queue import press
from tests.protocols.management.scene import Api
from tests.server_process import ServerProcess


def secret(page: Page, label: str) -> str:
    """What the page shows once."""
    field = page.get_by_role("dialog").get_by_label(label)
    expect(field).to_have_attribute("readonly", "")
    value = field.input_value()
    press(page, "Done")
    return value


def works(server: ServerProcess, token: str) -> bool:
    return Api(server.ports["http"], token=token).call("GET", "/whoami").status == 200


def test_a_token_is_made_rotated_and_deleted(console: Console, server: ServerProcess) -> None:
    with console.open("/tokens") as page:
        press(page, "New token")
        page.get_by_label("User").select_option("guest")
        page.get_by_label("Scopes").fill("manage read:*")
        page.get_by_label("What it is for").fill("dashboards")
        page.get_by_label("Ends after days").fill("30")
        press(page, "Make token")
        first = secret(page, "Token")
        assert works(server, first)
        row = page.locator("tbody tr").filter(has_text="dashboards")
        expect(row).to_contain_text("manage read:*")
        assert first not in page.content()
        keep(page, "tokens")
        row.get_by_role("button", name="Rotate").click()
        page.get_by_label("The old token stays good").fill("0")
        press(page, "Rotate")
        second = secret(page, "Token")
        assert (works(server, first), works(server, second)) == (False, True)
        row.get_by_role("button", name="Delete").click()
        press(page, "Delete")
        expect(row).to_have_count(0)
        assert not works(server, second)


def test_a_scope_that_is_none_is_told(console: Console) -> None:
    with console.open("/tokens") as page:
        press(page, "New token")
        page.get_by_label("Scopes").fill("everything")
        press(page, "Make token")
        expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("like write:orders.*")


def test_an_access_key_is_made_rotated_and_deleted(console: Console) -> None:
    with console.open("/tokens") as page:
        keys = page.get_by_role("region", name="Access keys of SQS")
        press(page, "New access key")
        page.get_by_label("User").select_option("visitor")
        press(page, "Make access key")
        first = page.get_by_role("dialog").get_by_label("Access key id").input_value()
        assert secret(page, "Secret access key")
        expect(keys.locator("tbody tr").filter(has_text=first)).to_contain_text("visitor")
        press(page, "Rotate")
        press(page, "Rotate")
        second = page.get_by_role("dialog").get_by_label("Access key id").input_value()
        assert secret(page, "Secret access key")
        expect(keys.locator("tbody tr").filter(has_text=second)).to_contain_text("visitor")
        expect(keys.get_by_text(first)).to_have_count(0)
        keys.get_by_role("button", name="Delete").click()
        press(page, "Delete")
        expect(keys.locator("td.empty")).to_be_visible()
