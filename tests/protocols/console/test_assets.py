"""The files of the console: nothing from elsewhere, nothing inline, no markup from text."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

PAGE = Path(str(files("leveret.protocols.console") / "page"))
OWN = sorted(path for path in PAGE.rglob("*") if path.is_file() and "vendor" not in path.parts)
SCRIPTS = [path for path in OWN if path.suffix == ".js"]
ELSEWHERE = re.compile(r"(?:https?:)?//(?!www\.w3\.org/2000/svg)[\w-]+\.[\w.-]+")
INLINE = re.compile(r"<script(?![^>]*\bsrc=)[^>]*>|<style|\sstyle=|\son\w+=|javascript:", re.IGNORECASE)
UNSAFE = re.compile(r"\.(?:inner|outer)HTML\b|insertAdjacentHTML|document\.write|\beval\(|new Function\(")
IMPORT = re.compile(r"""(?:from|import\()\s*"(\.[^"]+)\"""")


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_nothing_comes_from_another_server(path: Path) -> None:
    assert not ELSEWHERE.findall(path.read_text())


def test_nothing_is_inline() -> None:
    assert not INLINE.findall((PAGE / "index.html").read_text())


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_text_of_others_cannot_become_markup(path: Path) -> None:
    assert not UNSAFE.findall(path.read_text())


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_every_import_leads_to_a_file(path: Path) -> None:
    missing = [name for name in IMPORT.findall(path.read_text()) if not (path.parent / name).exists()]
    assert not missing


def test_scripts_are_short() -> None:
    long = [path.name for path in SCRIPTS if len(path.read_text().splitlines()) > 300]
    assert not long, f"split these: {long}"
