"""What takes how much room, by kind; a table says what each name in a data directory is."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from leveret.ingest.sinks import DIRECTORY as STAGING
from leveret.runtime.large_bodies import DIRECTORY as BLOBS
from leveret.runtime.storage import STREAMS
from leveret.storage.disk import LOCK_NAME, TEMPORARY
from leveret.storage.journal.files.meta import META_NAME
from leveret.storage.journal.files.writer import SPARE_NAME

OTHER = "others"
LEFTOVERS = "leftovers"
KINDS = {
    "log": re.compile(r"seg-\d{20}\.log"),
    "checkpoints": re.compile(r"ckpt-\d{20}\.idx"),
    "large bodies": re.compile(rf"{BLOBS}/.*"),
    "streams": re.compile(rf"{STREAMS}/.*"),
    "staged parts": re.compile(rf"{STAGING}/.*"),
    "spare room": re.compile(SPARE_NAME),
    "audit log": re.compile(r"audit(-\w+)?(\.1)?\.jsonl"),
    "past alerts": re.compile(r"alerts(\.1)?\.jsonl"),
    "about itself": re.compile(rf"{META_NAME}|{LOCK_NAME}|control\.sock|first-password"),
    LEFTOVERS: re.compile(rf".*{re.escape(TEMPORARY)}"),
}
"""By the path below the directory; the first that fits."""


@dataclass(slots=True)
class Size:
    """How much of one kind there is."""

    kind: str
    files: int = 0
    bytes: int = 0


def sizes(path: Path) -> list[Size]:
    """The room that a directory takes, by kind."""
    found = {kind: Size(kind) for kind in (*KINDS, OTHER)}
    for name, size in files(path):
        one = found[kind_of(name)]
        one.files += 1
        one.bytes += size
    return [each for each in found.values() if each.files]


def kind_of(name: str) -> str:
    """What a file is."""
    if name.endswith(TEMPORARY):
        return LEFTOVERS
    return next((kind for kind, pattern in KINDS.items() if pattern.fullmatch(name)), OTHER)


def files(path: Path) -> Iterator[tuple[str, int]]:
    """Every file below a directory with its size; one that goes meanwhile is not there."""
    for folder, _, names in os.walk(path):
        for name in names:
            full = Path(folder) / name
            try:
                yield str(full.relative_to(path)), full.lstat().st_size
            except FileNotFoundError:
                continue
