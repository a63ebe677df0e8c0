"""The frame of the console: login, menu, themes, what happens when the session ends."""

import pytest
from playwright.sync_api import Browser, expect

from tests.protocols.console.browser import Console, keep, log_in, watched
from tests.server_process import ServerProcess


def test_logging_in_and_out(browser: Browser, server: ServerProcess) -> None:
    url = f"http://127.0.0.1:{server.ports['http']}/console/"
    with browser.new_context() as context:
        page = context.new_page()
        with watched(page, url):
            page.goto(url.removesuffix("console/"))
            assert page.url == url
            keep(page, "login")
            page.get_by_label("User").fill("guest")
            page.get_by_label("Password").fill("wrong")
            page.get_by_role("button", name="Log in").click()
            expect(page.get_by_role("alert")).to_contain_text("wrong")
            log_in(page, url, "guest", "guest")
            page.get_by_role("button", name="Log out").click()
            expect(page.get_by_label("Password")).to_be_visible()
            page.reload()
            expect(page.get_by_label("Password")).to_be_visible()


def test_a_session_that_ended_leads_to_the_login(browser: Browser, server: ServerProcess) -> None:
    url = f"http://127.0.0.1:{server.ports['http']}/console/"
    with browser.new_context() as context:
        page = context.new_page()
        with watched(page, url):
            log_in(page, url, "guest", "guest")
            context.clear_cookies()
            page.get_by_role("link", name="Queues", exact=True).click()
            expect(page.get_by_role("status").filter(has_text="session has ended")).to_be_visible()
            expect(page.get_by_label("Password")).to_be_visible()


def test_the_theme_follows_the_system_and_the_switch(console: Console) -> None:
    with console.open(dark=True) as page:
        root = page.locator("html")
        expect(root).to_have_attribute("data-theme", "dark")
        page.get_by_role("button", name="Theme").click()
        expect(root).to_have_attribute("data-theme", "light")
        page.reload()
        expect(root).to_have_attribute("data-theme", "light")
        page.evaluate("localStorage.clear()")


def test_a_phone_has_a_menu_that_opens(console: Console) -> None:
    with console.open(size="phone") as page:
        link = page.get_by_role("link", name="Queues", exact=True)
        expect(link).to_be_hidden()
        page.get_by_role("button", name="Menu").click()
        link.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Queues")
        expect(link).to_be_hidden()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        keep(page, "queues-phone")


@pytest.mark.parametrize(
    "path",
    [
        "/exchanges/%2F/shop",
        "/channels",
        "/users/visitor",
        "/policies",
        "/streams",
        "/definitions",
        "/audit",
        "/alerts",
    ],
)
def test_every_page_is_as_wide_as_a_phone_and_dark_at_night(console: Console, path: str) -> None:
    with console.open(path, size="phone", dark=True) as page:
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        keep(page, f"{path.split('/')[1]}-phone")


def test_the_keyboard_reaches_the_content_and_the_menu(console: Console) -> None:
    with console.open() as page:
        page.get_by_role("link", name="Leveret", exact=True).focus()
        page.keyboard.press("Shift+Tab")
        expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("main")).to_be_focused()
        page.get_by_role("link", name="Queues", exact=True).focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_be_focused()


def test_an_address_without_a_page_says_so(console: Console) -> None:
    with console.open("/nowhere") as page:
        expect(page.get_by_role("main")).to_contain_text("There is no such page")
