"""The words of the repository: those of docs/glossary.md, not the ones that they replaced; no pronouns."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.sources import files, relative

TERMS_MAX = 60
CODE = (".py", ".pyx", ".pxd", ".pxi", ".pyi")
# As a part of an identifier, and in comments, docstrings and pages. docs/glossary.md has what to say instead.
RETIRED = (
    "mailbag mailbags courier couriers parcel parcels grave graves burial burials desk desks errand errands inquiry "
    "inquiries reception receptions incumbent incumbents departures vanishing conduit conduits strand strands envelope "
    "envelopes ledger ledgers shelf shelves neighbours seat"
)
# Only as a part of an identifier: they are words of plain English, or of other fields.
RETIRED_NAMES = (
    "guard guards ground front fronts branch branches bundle bundles road roads office offices doubt doubts doubted "
    "conversation conversations unclaimed lapse leap stretch stretches bag bags freshness"
)
PRONOUNS = "he his him himself whoever somebody nobody everybody"
# Instead: the reader, the waiting thread; is redelivered, is sent again; disconnects, was deleted.
RIDDLES = re.compile(r"(?<!no )\bone who\b|\bcomes? again\b|\bhas gone\b", re.IGNORECASE)
# Names that others keep: options, metrics and formats that were there before the word was retired.
KEPT = {
    "sqs_guards": "an option of the server",
    "guards": "the same, as a setting of SQS",
    "src/leveret/cluster/transfer/message.py: envelopes": "a field of the JSON between nodes",
}

TOKEN = re.compile(
    r"(?P<doc>(?:^|(?<=\n))[ \t]*[rR]?(?:\"\"\".*?\"\"\"|'''.*?'''))"
    r"|(?P<string>[rRbBuUfF]{0,2}(?:\"\"\".*?\"\"\"|'''.*?'''"
    r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'))|(?P<comment>#[^\n]*)|(?P<name>[^\W\d]\w*)",
    re.DOTALL,
)
CODE_SPAN = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def pattern(*words: str) -> re.Pattern[str]:
    """Finds whole words."""
    return re.compile(rf"\b({'|'.join(word for line in words for word in line.split())})\b", re.IGNORECASE)


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The sentences of a file: comments and docstrings of code, pages without their code; with where each begins."""
    text = path.read_text()
    if path.suffix in CODE:
        found = TOKEN.finditer(text)
        yield from ((match.start(), match[0]) for match in found if match.lastgroup in ("doc", "comment"))
    else:
        yield 0, CODE_SPAN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def names(path: Path) -> Iterator[tuple[int, str]]:
    """Every identifier of a file, with where it is."""
    yield from ((match.start(), match[0]) for match in TOKEN.finditer(path.read_text()) if match.lastgroup == "name")


def places(path: Path, found: Iterator[tuple[int, str]]) -> list[str]:
    """path:line: word."""
    text = path.read_text()
    return [f"{relative(path)}:{text.count(chr(10), 0, start) + 1}: {word}" for start, word in found]


def sources() -> list[Path]:
    """The package and all pages; not what others wrote, nor what was said about former versions."""
    found = [*files(*CODE, ".js", under="src"), *files(".md")]
    return [path for path in found if "vendor" not in path.parts and path.name not in ("CHANGELOG.md", "glossary.md")]


def said(path: Path, words: re.Pattern[str]) -> list[str]:
    """Where a file has one of the words in its sentences."""
    return places(
        path,
        (
            (start + match.start(), match[0])
            for start, text in prose(path)
            for match in words.finditer(text)
            if f"{relative(path)}: {match[0]}" not in KEPT
        ),
    )


def test_retired_words_are_in_no_sentence() -> None:
    found = [each for path in sources() for each in said(path, pattern(RETIRED))]
    assert not found, "docs/glossary.md has the words for these:\n" + "\n".join(found)


def test_retired_words_are_in_no_name() -> None:
    retired = set(RETIRED.split()) | set(RETIRED_NAMES.split())
    found = [
        each
        for path in files(*CODE, under="src")
        for each in places(
            path,
            (
                (start, name)
                for start, name in names(path)
                if name not in KEPT and retired.intersection(part.lower() for part in PART.findall(name))
            ),
        )
    ]
    assert not found, "docs/glossary.md has the names for these:\n" + "\n".join(found)


def test_retired_words_are_in_no_path() -> None:
    retired = set(RETIRED.split()) | set(RETIRED_NAMES.split())
    found = [relative(path) for path in files(under="src") if retired.intersection(re.split(r"[/._-]", relative(path)))]
    assert not found, f"docs/glossary.md has the names for these: {found}"


def test_components_are_it_and_people_have_a_name() -> None:
    found = [each for path in sources() for each in said(path, pattern(PRONOUNS))]
    assert not found, "name who acts: the node, the caller, the client, the user, the operator:\n" + "\n".join(found)


def test_sentences_say_which_component_does_what() -> None:
    found = [each for path in sources() for each in said(path, RIDDLES)]
    assert not found, "say who does what: the reader, the next owner; is redelivered, disconnects:\n" + "\n".join(found)


def test_the_glossary_is_short_and_sorted() -> None:
    page = next(path for path in files(".md", under="docs") if path.name == "glossary.md")
    terms = [line.split("|")[1].strip() for line in page.read_text().splitlines() if line.startswith("| ")][1:]
    assert len(terms) <= TERMS_MAX
    assert terms == sorted(terms, key=str.lower)
