"""What commands print, kept in pages of the documentation."""

import re
from pathlib import Path


def transcribe(name: str, text: str, page: Path) -> None:
    """Put what a command printed behind the mark for it."""
    mark = f"<!-- transcript: {name} -->\n"
    pattern = re.compile(re.escape(mark) + r"```text\n.*?```\n", re.DOTALL)
    fresh, count = pattern.subn(lambda _: f"{mark}```text\n{text.rstrip()}\n```\n", page.read_text())
    if count != 1:
        raise SystemExit(f"{page.name} has {count} places for the transcript of {name}: there must be one")
    page.write_text(fresh)
