"""Pictures of every page with a shop at work behind it, some of a cluster, and transcripts of two commands.

    python -m tests.protocols.console.screenshots

writes docs/screenshots/*.png, and puts what `leveret top` and `leveret doctor` print into docs/cli.md.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg
from playwright.sync_api import Browser, Page, sync_playwright

from examples.cluster.machine import running
from leveret.spark.session import SMALL
from tests.cluster.processes import Nodes
from tests.protocols.console.browser import Console, launch
from tests.protocols.console.shop import QUEUES, shop
from tests.protocols.console.shots import BYTES_MAX, CLUSTER, FOLDER, LINKED, SHOTS, Shot
from tests.protocols.management.scene import Api
from tests.server_process import ServerProcess
from tests.sources import ROOT
from tests.transcripts import transcribe

COMMANDS = ROOT / "docs" / "cli.md"
TRAFFIC_S = 75  # until charts show something
WIDTH = "100"
MOVED, MOVED_S = 8, 120
FLAGS = ("--segment-bytes", str(256 << 10), "--alerts-every-s", "5")


def take(console: Console, name: str, shot: Shot) -> None:
    """Take a picture of a page."""
    with console.open(shot.path, size=shot.size, dark=shot.dark) as page:
        if page.locator(".plot").count():
            page.locator(".plot canvas").first.wait_for()
        if shot.act is not None:
            shot.act(page)
        kept(page, name)


def kept(page: Page, name: str) -> None:
    """Keep a picture, if it is small enough for a repository."""
    data = page.screenshot(animations="disabled")
    if len(data) > BYTES_MAX:
        raise SystemExit(f"the picture {name} has {len(data)} bytes, the limit is {BYTES_MAX}: show less on it")
    (FOLDER / f"{name}.png").write_bytes(data)
    print(f"{name}: {len(data):,} bytes", flush=True)


def linked(console: Console) -> dict[str, Shot]:
    """Pages whose addresses are not known before: the first connection, the node."""
    found = {}
    for name, act in LINKED.items():
        with console.open(f"/{name}s") as page:
            address = page.locator("tbody a").first.get_attribute("href")
            assert address is not None
            found[name] = Shot(address.removeprefix("#"), act)
    return found


def login(browser: Browser, console: Console) -> None:
    """Take a picture of the login."""
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        page = context.new_page()
        page.goto(console.url)
        page.get_by_label("Password").wait_for()
        kept(page, "login")


def leveret(*words: str, url: str = "") -> str:
    """What a command prints."""
    environ = {**os.environ, "LEVERET_URL": url, "COLUMNS": WIDTH, "LINES": "30", "TZ": "UTC"}
    command = [sys.executable, "-m", "leveret", *words]
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, timeout=300)
    if done.returncode:
        raise SystemExit(f"leveret {' '.join(words)} ended with {done.returncode}")
    return done.stdout


def report(server: ServerProcess, out: Path) -> None:
    """Make a report on what has happened so far."""
    spark = [word for pair in SMALL.items() for word in ("--conf", "=".join(pair))]
    data = ["--path", str(server.data), "--out", str(out), "--period", "second"]
    leveret("pipeline", "report", *data, "--master", "local[2]", *spark)


def take_cluster() -> None:
    """Take pictures of three nodes with the queues of the shop, in two databases."""
    with running() as nodes, sync_playwright() as playwright:
        api = Api(nodes.http_port("a"))
        for name, arguments in QUEUES.items():
            api.put(f"/queues/%2F/{name}", {"durable": True, "arguments": arguments})
        add_database(nodes)
        browser = launch(playwright)
        console = Console(browser, nodes.http_port("b"))
        for name, shot in CLUSTER.items():
            take(console, name, shot)
        browser.close()
        transcribe("doctor of a cluster", leveret("doctor", nodes.data("a")), COMMANDS)


def add_database(nodes: Nodes) -> None:
    """Let some shards be in a second database, which is on the same server here."""
    (first,) = nodes.operate("a", "cluster.status")["groups"]
    with psycopg.connect(first["url"], autocommit=True) as connection:
        connection.execute("create database archive")
    url = f"{first['url'].rpartition('/')[0]}/archive"
    nodes.operate("a", "cluster.add-shard-group", url=url, shards=MOVED)
    deadline = time.monotonic() + MOVED_S
    while [row["shards"] for row in nodes.operate("a", "cluster.status")["groups"][1:]] != [MOVED]:
        if time.monotonic() > deadline:
            raise SystemExit("the shards do not move: see the logs of the nodes")
        time.sleep(0.2)


def main() -> int:
    """Make all of it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    take_cluster()
    folder = Path(tempfile.mkdtemp(prefix="shop-"))
    reports = folder / "reports"
    try:
        with ServerProcess(folder, "--reports-dir", str(reports), *FLAGS) as server:
            with shop(server), sync_playwright() as playwright:
                time.sleep(TRAFFIC_S)
                report(server, reports / "2026-11-15")
                browser = launch(playwright)
                console = Console(browser, server.ports["http"])
                login(browser, console)
                for name, shot in (SHOTS | linked(console)).items():
                    take(console, name, shot)
                browser.close()
                transcribe("top", leveret("top", "--once", url=server.http_url), COMMANDS)
            server.kill()
            server.data.rename(folder / "shop")
            transcribe("doctor", leveret("doctor", str(folder / "shop")).replace(f"{folder}/", ""), COMMANDS)
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
