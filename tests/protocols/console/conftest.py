"""A busy broker, and browsers on its console."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.parts import need_program
from tests.protocols.console.browser import Console, launch
from tests.protocols.console.busy import busy
from tests.protocols.management.scene import Api
from tests.server_process import ServerProcess


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """A browser."""
    need_program("chromium")
    with sync_playwright() as playwright:
        running = launch(playwright)
        yield running
        running.close()


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server at work."""
    folder = tmp_path_factory.mktemp("console")
    report = folder / "reports" / "monday"
    report.mkdir(parents=True)
    (report / "index.html").write_text("<!doctype html><title>Monday</title><h1>All is well</h1>")
    (report / "summary.txt").write_text("40 messages, none late\n")
    flags = ("--reports-dir", str(report.parent), "--alerts-every-s", "1")
    with ServerProcess(folder, *flags) as running, busy(running):
        yield running


@pytest.fixture
def api(server: ServerProcess) -> Api:
    """Its management API, as an administrator."""
    return Api(server.ports["http"])


@pytest.fixture(scope="package")
def console(browser: Browser, server: ServerProcess) -> Console:
    """The console as an administrator has it."""
    return Console(browser, server.ports["http"])


@pytest.fixture(scope="package")
def limited(browser: Browser, server: ServerProcess) -> Console:
    """The console of somebody who may look at orders, and nothing else."""
    return Console(browser, server.ports["http"], "visitor", "wonderland")
