"""The examples of the documentation are run, so that they stay true.

The blocks of a page run in order, in one namespace and one temporary directory, like a reader who types them in.
A block right after the line `<!-- not run -->` is left out; one after `<!-- run with Spark -->` is run where Spark is,
in pipeline/test_commands.py. A page with a client gets a server,
and one with a database a store.
"""

import re
from pathlib import Path
from typing import Any

import pika.connection
import pytest

import leveret
from tests.conftest import need
from tests.protocols.sqs.server import KEY, SECRET, Server, add_key
from tests.server_process import ServerProcess
from tests.sources import ROOT, relative

BLOCK = re.compile(r"^(<!-- (?:not run|run with Spark) -->\n+)?```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


STORE = "postgresql://leveret@db1/leveret"
"""The database of the pages; a page that has it gets a store."""


def blocks(text: str) -> list[tuple[int, str]]:
    """The blocks of a page that are run, each with the number of the line before its first one."""
    found = BLOCK.finditer(text)
    return [(text.count("\n", 0, match.start(2)), match[2]) for match in found if not match[1]]


def run(page: str, text: str) -> dict[str, Any]:
    """Run the blocks of a page; errors point to its own lines. Give the names that they defined."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for line, source in blocks(text):
        exec(compile("\n" * line + source, page, "exec"), namespace)
    return namespace


PAGES = [path for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if blocks(path.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_examples_run(
    page: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    need(hasattr(leveret, "open"), "the embedded broker")
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    if STORE in text:
        text = text.replace(STORE, request.getfixturevalue("store_url"))
    if not any(word in text for word in ("import pika", "import boto3", "connect(")):
        run(str(page), text)
        return
    # A reader has a server on the usual port; here it is another one.
    with ServerProcess(tmp_path_factory.mktemp("server")) as server:
        monkeypatch.setattr(pika.connection.Parameters, "DEFAULT_PORT", server.port)
        add_key(server, "guest", KEY, SECRET)
        for name, value in (Server(server).environ | {"AWS_ENDPOINT_URL_SQS": Server(server).url}).items():
            monkeypatch.setenv(name, value)
        ports = {"127.0.0.1:15672": server.ports["http"], "127.0.0.1:5672": server.port}
        for address, port in ports.items():
            text = text.replace(address, f"127.0.0.1:{port}")
        run(str(page), text)


def test_blocks_of_a_page_share_their_names_unless_marked() -> None:
    page = "```python\na = 1\n```\n<!-- not run -->\n```python\na = 2\n```\ntext\n```python\nb = a + 1\n```\n"
    assert run("page", page)["b"] == 2


def test_an_error_in_an_example_names_its_line() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        run("page", "one\n\n```python\nx = 0\n1 / x\n```\n")
    assert raised.traceback[-1].lineno == 4  # counted from 0: the fifth line of the page
