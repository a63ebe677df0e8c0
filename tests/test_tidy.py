"""The habits of the repository as tests: one rule each, and a message that says how to follow it."""

import inspect
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import leveret
from tests.commit_message import complaints
from tests.sources import ROOT, code, files, functions, imports, relative

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
# Files ("path") and functions ("path:Class.method") that may be longer, each with its reason.
LONGER: dict[str, str] = {}

UNFINISHED = re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X])\b")
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root|home)/")
REQUIREMENT_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
TARGET = re.compile(r"^([a-z][\w-]*):(?!=)", re.MULTILINE)
CODE_SPAN = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
MAKE_CALL = re.compile(r"\bmake ((?:[A-Z]+=\S+ )*)([a-z][\w-]*)")
COMMITS = 20
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


def matches(pattern: re.Pattern[str]) -> list[str]:
    """Where a pattern occurs in the text files of the repository, as path:line: text."""
    return [
        f"{relative(path)}:{number}: {line.strip()}"
        for path in files()
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if pattern.search(line)
    ]


def long_ones() -> Iterator[str]:
    """Every file and function over its limit."""
    for path in files(".py", ".pyx"):
        lines = len(path.read_text().splitlines())
        if lines > FILE_LINES_MAX:
            yield relative(path)
        yield from (
            f"{relative(path)}:{function.name}" for function in functions(path) if function.length > FUNCTION_LINES_MAX
        )


def requirements() -> set[str]:
    """The name of every distribution that pyproject.toml asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"].values()
    lists = [project["build-system"]["requires"], project["project"]["dependencies"], *extras]
    found = (REQUIREMENT_NAME.match(line) for lines in lists for line in lines)
    return {match[0] for match in found if match} - {"leveret"}


def pages() -> list[Path]:
    """Every page of documentation."""
    return files(".md")


def links(page: Path) -> list[str]:
    """The relative links of a page; brackets inside code are none."""
    return LINK.findall(CODE_SPAN.sub("", page.read_text()))


def test_compiled_sources_import_nothing_for_nothing() -> None:
    unused = [
        f"{relative(path)}: {name}"
        for path in files(".pyx", under="src")
        for name in {dotted.rsplit(".", 1)[-1] for dotted in imports(path)}
        if len(re.findall(rf"\b{name}\b", code(path))) < 2
    ]
    assert not unused, f"ruff does not read these files; remove: {unused}"


def test_files_and_functions_are_short() -> None:
    long = set(long_ones()) - set(LONGER)
    assert not long, (
        f"over {FILE_LINES_MAX} lines a file or {FUNCTION_LINES_MAX} a function; split, or give LONGER a reason: {long}"
    )


def test_exceptions_from_the_limits_are_still_needed() -> None:
    unneeded = set(LONGER) - set(long_ones())
    assert not unneeded, f"these are short now, remove them from LONGER: {unneeded}"


def test_nothing_is_left_unfinished() -> None:
    found = matches(UNFINISHED)
    assert not found, "finish it, or write it down as an issue:\n" + "\n".join(found)


def test_no_path_of_one_machine() -> None:
    found = matches(MACHINE_PATH)
    assert not found, "use a relative path or a setting:\n" + "\n".join(found)


def git(*words: str) -> str:
    """What git says of this clone."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("there is no history: this is not a clone")
    command = ["git", "-c", f"safe.directory={ROOT}", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_stubs_are_generated() -> None:
    kept = git("ls-files", "src/*.pyi").split()
    assert not kept, f"stubs.py writes these: annotate the .pyx, and remove from git: {kept}"


def test_compiled_modules_have_their_source() -> None:
    orphans = [
        relative(path)
        for path in (ROOT / "src").rglob("*.so")
        if not path.with_name(path.name.split(".")[0] + ".pyx").exists()
    ]
    assert not orphans, f"these would still be imported though their source is gone, delete them: {orphans}"


def test_every_dependency_is_explained() -> None:
    explained = set(re.findall(r"^\| `([\w.-]+)`", (ROOT / "docs" / "dependencies.md").read_text(), re.MULTILINE))
    missing = requirements() - explained
    assert not missing, f"say in docs/dependencies.md what these are for and why they were chosen: {sorted(missing)}"


def test_make_targets_in_the_documentation_exist() -> None:
    targets = set(TARGET.findall((ROOT / "Makefile").read_text()))
    wrong = [
        f"{relative(path)}: make {call[2]}"
        for path in pages()
        for span in CODE_SPAN.findall(path.read_text())
        for call in MAKE_CALL.finditer(span)
        if call[2] not in targets
    ]
    assert not wrong, f"the Makefile has no such target: {wrong}"


def test_links_between_pages_lead_somewhere() -> None:
    wrong = [
        f"{relative(path)} -> {target}"
        for path in pages()
        for target in links(path)
        if not (path.parent / target).exists()
    ]
    assert not wrong, f"correct or remove these links: {wrong}"


def test_every_page_of_docs_is_in_the_index() -> None:
    docs = ROOT / "docs"
    linked = {"index.md", *links(docs / "index.md")}
    missing = {path.relative_to(docs).as_posix() for path in files(".md", under="docs")} - linked
    assert not missing, f"list these in docs/index.md: {sorted(missing)}"


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        ("Refuse a frame that is too long\n\nIt would be read into memory.\n# Please enter ...\n", ""),
        (72 * "x", ""),
        (73 * "x", "73 characters"),
        (f'Revert "{72 * "x"}"', ""),
        (f"fixup! {72 * 'x'}", ""),
        ("Refuse a frame.", "full stop"),
        ("Refuse a frame\nthat is too long", "blank line"),
        ("# only a remark\n", "say there"),
        ("\nRefuse a frame", "say there"),
        ("", "say there"),
    ],
)
def test_a_commit_message_has_a_short_subject(message: str, wrong: str) -> None:
    found = complaints(message)
    assert len(found) == bool(wrong)
    assert all(wrong in each for each in found)


def test_the_last_commits_have_short_subjects() -> None:
    subjects = git("log", "--no-merges", f"--max-count={COMMITS}", "--format=%s").splitlines()
    wrong = [complaint for subject in subjects for complaint in complaints(subject)]
    assert subjects
    assert not wrong, f"the next ones shorter, please; of the last {COMMITS}: {wrong}"


def test_hooks_before_a_commit_are_the_parts_of_make_check() -> None:
    given = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    (repository,) = given["repos"]
    assert repository["repo"] == "local", "hooks come from this repository: nothing is fetched"
    called = [hook["entry"] for hook in repository["hooks"] if hook.get("stages") != ["commit-msg"]]
    parts = re.findall(r"^check: ([\w ]+)", (ROOT / "Makefile").read_text(), re.MULTILINE)[0].split()
    assert called == [f"make --silent {part}" for part in parts]


def test_what_users_import_is_documented() -> None:
    missing = [
        f"{name}.{member}"
        for name in leveret.__all__
        if inspect.isclass(getattr(leveret, name))
        for member, found in vars(getattr(leveret, name)).items()
        if not member.startswith("_")
        and inspect.isroutine(found)
        and not inspect.getdoc(getattr(getattr(leveret, name), member))
    ]
    assert not missing, f"say what these do: {missing}"
