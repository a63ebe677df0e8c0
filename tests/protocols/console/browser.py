"""A real browser on the console: pages that fail the test when a script fails or something else is loaded."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Playwright, expect

from tests.sources import ROOT
from tests.waiting import PATIENCE_S

CHROMIUM = "chromium"
SCREENSHOTS = ROOT / "build" / "screenshots"
TIMEOUT_MS = PATIENCE_S * 1_000
FLAT = ("--disable-gpu", "--disable-software-rasterizer")
"""Pages of ours need no graphics card: to imitate one takes a sixth of the time."""
SIZES = {"desktop": (1280, 800), "phone": (390, 844)}

expect.set_options(TIMEOUT_MS)


def launch(playwright: Playwright) -> Browser:
    """Debian's Chromium; as root, which containers are, it runs without its sandbox."""
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    return playwright.chromium.launch(executable_path=shutil.which(CHROMIUM), args=[*FLAT, *flags])


class Console:
    """The console of a server in a browser, for one who is logged in."""

    def __init__(self, browser: Browser, port: int, user: str = "guest", password: str = "guest") -> None:
        """Log in once; pages use that session."""
        self.url = f"http://127.0.0.1:{port}/console/"
        self._browser = browser
        self._windows: dict[tuple[str, bool], BrowserContext] = {}
        with browser.new_context() as context:
            page = context.new_page()
            page.set_default_timeout(TIMEOUT_MS)
            log_in(page, self.url, user, password)
            self._state = context.storage_state()

    @contextmanager
    def open(self, path: str = "/", *, size: str = "desktop", dark: bool = False) -> Iterator[Page]:
        """A page; those of one size and theme share what they have loaded."""
        page = self._window(size, dark).new_page()
        with watched(page, self.url):
            page.goto(f"{self.url}#{path}")
            page.locator("main h1").wait_for()
            yield page
        page.close()

    def _window(self, size: str, dark: bool) -> BrowserContext:
        if (size, dark) not in self._windows:
            width, height = SIZES[size]
            self._windows[size, dark] = self._browser.new_context(
                viewport={"width": width, "height": height},
                storage_state=self._state,
                color_scheme="dark" if dark else "light",
            )
        return self._windows[size, dark]


@contextmanager
def watched(page: Page, url: str) -> Iterator[None]:
    """Fail when a script fails, the policy of the page is broken, or another server is asked."""
    page.set_default_timeout(TIMEOUT_MS)
    wrong: list[str] = []

    def listen(message: ConsoleMessage) -> None:
        # A refusal that the test provokes is an answer like others; Chromium notes it all the same.
        if message.type == "error" and "the server responded with a status of" not in message.text:
            wrong.append(message.text)

    page.on("console", listen)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    origin = url.removesuffix("/console/")
    page.on("request", lambda request: None if request.url.startswith((origin, "data:")) else wrong.append(request.url))
    yield
    assert not wrong, wrong


def log_in(page: Page, url: str, user: str, password: str) -> None:
    """Fill in the login and wait for the page behind it."""
    page.goto(url)
    page.get_by_label("User").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
    page.locator("main h1", has_text="Overview").wait_for()


def keep(page: Page, name: str) -> Path:
    """Keep a picture of a page, to be looked at."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    path = SCREENSHOTS / f"{name}.png"
    path.write_bytes(page.screenshot())
    return path


def cell(page: Page, row: str, heading: str) -> str:
    """What a table has in a row, which is found by its text, under a heading."""
    return cell_of(page, row, heading).inner_text()


def cell_of(page: Page, row: str, heading: str) -> Locator:
    """The cell itself, whose text may be waited for."""
    table = page.locator("table", has=page.get_by_role("row").filter(has_text=row)).first
    found = table.locator("tbody tr").filter(has_text=row).first
    found.wait_for()
    names = [text.strip() for text in table.locator("thead th").all_text_contents()]
    return found.locator("td").nth(names.index(heading))
