"""Reads the repository's own sources as text, Python and Cython alike, for the tests that check its rules."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (".ci", ".github", "src", "tests", "bench", "examples", "docs", "deploy")
TEXT_SUFFIXES = {".py", ".pyx", ".pxd", ".pxi", ".pyi", ".h", ".md", ".toml", ".yaml", ".yml", ".sh", ".html", ".js"}
TEXT_NAMES = {"Makefile", "Dockerfile", "run"}

STRING = re.compile(r"(\"{3}|'{3}).*?\1", re.DOTALL)
FUNCTION = re.compile(r"^( *)(?:async )?(?:def|cdef|cpdef)\b(?! class)[^=\n]*?(\w+)\(", re.MULTILINE)
CLASS = re.compile(r"^( *)(?:cdef )?class (\w+)", re.MULTILINE)
FROM_IMPORT = re.compile(r"^ *from +(\S+) +c?import +(\([^)]*\)|[^\n#]*)", re.MULTILINE)
IMPORT = re.compile(r"^ *c?import +([^\n#(]+)", re.MULTILINE)


class Function(NamedTuple):
    """A function of a source: its dotted name (with its class), first line and number of lines."""

    name: str
    line: int
    length: int


def files(*suffixes: str, under: str = ".") -> list[Path]:
    """The text files of the repository, or those with one of these suffixes, below a folder."""
    top = [path for path in ROOT.iterdir() if path.is_file()]
    below = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    wanted = [path for path in top + below if path.suffix in TEXT_SUFFIXES or path.name in TEXT_NAMES]
    base = (ROOT / under).resolve()
    return sorted(path for path in wanted if (not suffixes or path.suffix in suffixes) and path.is_relative_to(base))


def relative(path: Path) -> str:
    """The path as people write it, from the root of the repository."""
    return path.relative_to(ROOT).as_posix()


def code(path: Path) -> str:
    """The text of a source with its long strings blanked and every line where it was."""
    return STRING.sub(lambda match: "\n" * match[0].count("\n"), path.read_text())


def functions(path: Path) -> list[Function]:
    """Every function and method of a source; one inside another counts for both."""
    text = code(path)
    lines = text.split("\n")
    found = sorted([*CLASS.finditer(text), *FUNCTION.finditer(text)], key=lambda match: match.start())
    outer: list[tuple[int, str]] = []
    result = []
    for match in found:
        indent = len(match[1])
        outer = [(depth, name) for depth, name in outer if depth < indent]
        first = text.count("\n", 0, match.start())
        outer.append((indent, match[2]))
        if match.re is FUNCTION:
            name = ".".join(name for _, name in outer)
            result.append(Function(name, first + 1, block_length(lines, first, indent)))
    return result


def block_length(lines: list[str], first: int, indent: int) -> int:
    """How many lines the block has that starts on line index `first`, without blank lines at its end."""
    length = 1
    for number, line in enumerate(lines[first + 1 :], start=2):
        text = line.lstrip()
        # The closing bracket of a long signature stands at the indentation of the `def` itself.
        if text and len(line) - len(text) <= indent and not text.startswith(")"):
            break
        length = number if text else length
    return length


def names(path: Path) -> set[str]:
    """Every dotted name of a class, function or method that a source defines."""
    text = code(path)
    return {match[2] for match in CLASS.finditer(text)} | {function.name for function in functions(path)}


def module(path: Path) -> str:
    """The dotted name under which a source is imported."""
    inside = path.relative_to(ROOT / "src") if path.is_relative_to(ROOT / "src") else path.relative_to(ROOT)
    parts = inside.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, text: str | None = None) -> Iterator[str]:
    """Every dotted name that a source, or a part of it, imports or cimports; `from a import b` gives a.b."""
    text = code(path) if text is None else text
    for match in FROM_IMPORT.finditer(text):
        origin = absolute(path, match[1])
        listed = re.sub(r"#.*", "", match[2]).strip("() ").split(",")
        yield from (f"{origin}.{name.split()[0]}" for name in listed if name.split())
    for match in IMPORT.finditer(text):
        yield from (name.split()[0] for name in match[1].split(",") if name.split())


def absolute(path: Path, name: str) -> str:
    """The full name of a module that may be written with leading dots."""
    dots = len(name) - len(name.lstrip("."))
    if dots == 0:
        return name
    here = module(path).split(".")
    package = here if path.stem == "__init__" else here[:-1]
    base = package[: len(package) - (dots - 1)]
    return ".".join([*base, *filter(None, [name[dots:]])])
