"""The page about the console names every page, and shows pictures that are small and of today's pages."""

import re
from pathlib import Path

import pytest

from tests.protocols.console.shots import BYTES_MAX, CLUSTER, FOLDER, LINKED, SHOTS
from tests.sources import ROOT
from tests.test_docs import code

TEXT = (ROOT / "docs" / "console.md").read_text()
ENTRY = re.compile(r'path: "(/[^"]*)",\s+name: "([^"]+)",\s+group: "[^"]+",\s+tag: "(\w+)"')
PICTURES = sorted(FOLDER.glob("*.png"))
NAMES = {"login", "report", *SHOTS, *CLUSTER, *LINKED}


def test_every_entry_of_the_menu_is_on_the_page_with_its_tag() -> None:
    entries = ENTRY.findall((ROOT / "src/leveret/protocols/console/page/pages.js").read_text())
    rows = [line.strip("|").split(" |") for line in TEXT.splitlines() if line.startswith("| ")]
    told = {(name.strip(), row[-1].strip()) for row in rows for name in row[0].split(",")}
    assert {(name, code(tag)) for _, name, tag in entries} <= told


def test_every_page_has_a_picture() -> None:
    entries = ENTRY.findall((ROOT / "src/leveret/protocols/console/page/pages.js").read_text())
    shown = {shot.path.partition("?")[0] for shot in SHOTS.values()}
    assert {path for path, _, _ in entries} <= shown


def test_the_pictures_are_those_that_are_taken_and_shown() -> None:
    assert {path.stem for path in PICTURES} == NAMES
    assert set(re.findall(r"\(screenshots/([\w-]+)\.png\)", TEXT)) == NAMES


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_a_picture_is_small(path: Path) -> None:
    assert path.stat().st_size < BYTES_MAX
