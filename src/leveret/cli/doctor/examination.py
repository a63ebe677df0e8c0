"""One examination of a data directory: facts about all that is in it, and what to do about them."""

import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from leveret.cli.doctor.log import LogFacts, LookedAt, PartitionFacts, log_facts, partitions
from leveret.core.errors import JournalError, NotFound
from leveret.ingest.sinks import DIRECTORY as STAGING
from leveret.runtime.large_bodies import DIRECTORY as BLOBS
from leveret.runtime.storage import STREAMS
from leveret.storage.disk import LOCK_NAME, TEMPORARY
from leveret.storage.journal.files.meta import META_NAME, Meta, read_meta
from leveret.storage.journal.files.recovery import SALVAGED_NAME, verify
from leveret.storage.journal.files.segments import segment_name, segment_numbers
from leveret.storage.journal.files.store import SPARE_NAME
from leveret.storage.options import JournalOptions
from leveret.storage.segments import Damage

OTHER, HISTORY = "others", "history"
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
    "about itself": re.compile(
        rf"{META_NAME}|{SALVAGED_NAME}|{LOCK_NAME}|control\.sock|first-password|console-sessions"
    ),
    LEFTOVERS: re.compile(rf".*{re.escape(TEMPORARY)}"),
}
"""By the path below the directory; the first that fits."""


@dataclass(slots=True)
class Size:
    """How much of one kind there is."""

    kind: str
    files: int = 0
    bytes: int = 0


def sizes(path: Path, oldest: int = 0) -> list[Size]:
    """The room that a directory takes, by kind; segments below the oldest of the log are history."""
    found = {kind: Size(kind) for kind in (*KINDS, HISTORY, OTHER)}
    for name, size in files(path):
        kind = kind_of(name)
        one = found[HISTORY if kind == "log" and name < segment_name(oldest) else kind]
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


@dataclass(slots=True)
class DoctorReport:
    """What was found."""

    directory: str
    holder: int | None
    broker: str | None
    created_ms: int | None
    format: int | None
    sizes: list[Size]
    log: LogFacts
    streams: list[PartitionFacts]
    damage: list[Damage]
    checked: bool
    free_bytes: int
    examined_ms: int
    advice: list[str] = field(default_factory=list)

    @property
    def log_bytes(self) -> int:
        return sum(each.bytes for each in self.log.segments)

    @property
    def sound(self) -> bool:
        """Whether a server can start on it without losing anything."""
        return not (self.damage or self.log.trouble or any(each.trouble for each in self.streams))

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "damage": [each._asdict() for each in self.damage], "sound": self.sound}


def examine(
    path: Path, options: JournalOptions, check: bool = True, progress: Callable[[int], None] = lambda count: None
) -> DoctorReport:
    """Look at everything in a directory; without `check` only what a server reads when it starts."""
    disk = LookedAt(path, progress)
    if META_NAME not in disk.names() and not segment_numbers(disk):
        raise NotFound(f"{path} is not the data directory of a broker: name that")
    meta = _meta(disk)
    log = log_facts(disk, options)
    return DoctorReport(
        directory=str(path),
        holder=disk.holder(),
        broker=None if meta is None else meta.broker,
        created_ms=None if meta is None else meta.created_ms,
        format=None if meta is None else meta.format,
        sizes=sizes(path, 0 if meta is None else meta.oldest),
        log=log,
        streams=partitions(path / STREAMS, log.stream_names, options.keys, progress) if check else [],
        damage=[each for each in verify(disk) if not _is_torn(each, log)] if check else [],
        checked=check,
        free_bytes=disk.free_bytes(),
        examined_ms=time.time_ns() // 1_000_000,
    )


def bytes_to_read(found: list[Size], check: bool) -> int:
    """About how much an examination reads: with a checkpoint a start reads little of the log."""
    by_kind = {each.kind: each.bytes for each in found}
    checkpoint, log = by_kind.get("checkpoints", 0), by_kind.get("log", 0)
    started = 2 * checkpoint if checkpoint else log
    return started + (log + checkpoint + by_kind.get("streams", 0) if check else 0)


def _is_torn(damage: Damage, log: LogFacts) -> bool:
    """Whether it is the end of the log, which was being written at a crash: a start cuts it."""
    if not log.torn_bytes or log.trouble:
        return False
    last = log.segments[-1]
    return (damage.name, damage.offset) == (segment_name(last.segment), last.bytes - log.torn_bytes)


def _meta(disk: LookedAt) -> Meta | None:
    """What the directory says about itself, if it can be read."""
    try:
        return read_meta(disk)
    except (JournalError, FileNotFoundError):
        return None
