"""The examples of docs/rest.md: each command is run on a server, and its output compared, but for ids and times."""

import re
import subprocess
from pathlib import Path

from tests.cli.shell import environment
from tests.cli.test_page import examples
from tests.server_process import ServerProcess
from tests.sources import ROOT
from tests.waiting import PATIENCE_S

PAGE = (ROOT / "docs" / "rest.md").read_text()
VARYING = {
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}": "ID",
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z": "TIME",
    r'(?<="receipt_handle":")[\w=-]+': "RECEIPT",
}


def same_each_time(output: str) -> str:
    for pattern, word in VARYING.items():
        output = re.sub(pattern, word, output)
    return output


def test_every_example_prints_what_the_page_says(tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    environ = environment(tmp_path / "tools")
    shell = subprocess.Popen(
        ["bash"], stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True, cwd=tmp_path, env=environ
    )
    with ServerProcess(tmp_path) as server, shell:
        port = str(server.ports["http"])
        # One shell for all of them, because they share variables; a line of its own ends the output of each.
        lines = [f"{each.command.replace('15672', port)}\necho; echo END-OF-OUTPUT\n" for each in examples(PAGE)]
        said = shell.communicate("".join(lines), timeout=PATIENCE_S)[0].split("END-OF-OUTPUT\n")
    for example, output in zip(examples(PAGE), said, strict=False):
        assert same_each_time(output).strip() == example.output.strip(), example.command
