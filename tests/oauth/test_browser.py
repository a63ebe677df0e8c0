"""The console in Chromium: a login at the provider, what it leaves in the page, logging out, and errors."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.oauth.provider import PUBLIC, Provider
from tests.parts import need_program
from tests.protocols.console.browser import TIMEOUT_MS, launch
from tests.server_process import ServerProcess

SCOPES = "leveret.tag:administrator leveret.read:*/* leveret.write:*/* leveret.configure:*/*"
BUTTON = "Log in with Company ID"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    need_program("chromium")
    with sync_playwright() as playwright:
        running = launch(playwright)
        yield running
        running.close()


@pytest.fixture
def console(tmp_path: Path, provider: Provider) -> Iterator[str]:
    provider.users = {"ada": {"scope": SCOPES}, "eve": {}}
    flags = ("--oauth-issuer", provider.issuer, "--oauth-client-id", PUBLIC, "--oauth-label", "Company ID")
    with ServerProcess(tmp_path, *flags) as running:
        yield f"http://127.0.0.1:{running.ports['http']}/console/"


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with browser.new_context() as context:
        opened = context.new_page()
        opened.set_default_timeout(TIMEOUT_MS)
        yield opened


def log_in(page: Page, console: str, user: str = "ada", answer: str = "Allow") -> None:
    page.goto(console)
    page.get_by_role("button", name=BUTTON).click()
    page.get_by_label("User").fill(user)
    page.get_by_role("button", name=answer).click()


def test_a_person_logs_in_at_the_provider_and_out_again(page: Page, console: str, provider: Provider) -> None:
    log_in(page, console)
    page.locator("main h1", has_text="Overview").wait_for()
    assert page.url.startswith(console)
    expect(page.locator("header .user")).to_have_text("ada")
    assert page.evaluate("document.cookie") == ""
    assert page.evaluate("JSON.stringify([localStorage, sessionStorage])").count("ey") == 0
    page.goto(f"{console}#/queues")
    page.locator("main h1", has_text="Queues").wait_for()
    page.reload()
    expect(page.locator("header .user")).to_have_text("ada")
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("button", name=BUTTON).wait_for()
    assert "/logout" in provider.requests
    page.reload()
    page.get_by_role("button", name=BUTTON).wait_for()


@pytest.mark.parametrize(
    ("user", "answer", "told"),
    [("eve", "Allow", "Your user may not use the console"), ("ada", "Deny", "The provider has refused the login")],
)
def test_the_page_says_why_a_login_failed(page: Page, console: str, user: str, answer: str, told: str) -> None:
    log_in(page, console, user, answer)
    expect(page.locator("main p.soft")).to_contain_text(told)
    assert page.url == console
    page.get_by_label("User").fill("guest")
    page.get_by_label("Password").fill("guest")
    page.get_by_role("button", name="Log in", exact=True).click()
    page.locator("main h1", has_text="Overview").wait_for()
