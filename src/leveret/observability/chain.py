"""Lines that are chained: each has its number and the SHA-256 of the line before it, without the line break.

    {"at_ms": ..., "by": ..., ..., "seq": 1, "prev": "0000...0000"}
    {"at_ms": ..., "by": ..., ..., "seq": 2, "prev": SHA-256 of the line with seq 1}

The chain goes on over rotation and restart. A line that a crash has cut is left where it is, and the next line refers
to the last whole one; so a cut line is told from a changed one, after which the chain is broken. Lines without `prev`
before the first chained one were written by an older version: the first chained line refers to the last of them.

The chain shows whether lines were changed, inserted or removed before its head. It does not protect the head: a user
who may write the files can cut off lines at the end, or make a new chain. Compare the head with one that is kept
elsewhere, as in forwarded rows.
"""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import IO, Any

import orjson

NO_LINE = "0" * 64  # the `prev` of the first line
LINE_BYTES_MAX = 1 << 20  # more is no line of ours: it is read in pieces
OPENINGS_MAX = 10  # tries to open two files between which none is rotated

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ChainHead:
    """The last line of a chain: its number, and the hash that the next line has."""

    seq: int = 0
    hash: str = NO_LINE

    def line(self, row: Row) -> tuple[bytes, "ChainHead"]:
        """The next line, and the head after it."""
        seq = self.seq + 1
        line = text_of({**row, "seq": seq, "prev": self.hash})
        return line, ChainHead(seq, hash_of(line))


def text_of(row: Row) -> bytes:
    """A row as a line, without its line break."""
    try:
        return orjson.dumps(row)
    except TypeError:  # half of a surrogate pair, a number of more than 64 bits
        return json.dumps(row).encode()


def hash_of(line: bytes) -> str:
    """What the next line says of a line."""
    return sha256(line).hexdigest()


def parsed(line: bytes) -> Row | None:
    """What a line says, if it can be read."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def head_of(lines: Sequence[bytes]) -> ChainHead:
    """The head after some lines: the last one that is whole. One without a number is of an older version."""
    for line in reversed(lines):
        row = parsed(line)
        if row is not None:
            seq = row.get("seq")
            return ChainHead(seq if isinstance(seq, int) else 0, hash_of(line))
    return ChainHead()


@dataclass(slots=True)
class Finding:
    """What is in the files of a chain. `broken` says where and why, of the first break; None: it is whole."""

    name: str
    rows: int = 0
    unchained: int = 0
    """Rows of an older version at the beginning, which nothing protects but the last of them."""
    torn: int = 0
    """Lines that a crash has cut."""
    since_ms: int | None = None
    """The time of the first chained row that is there; older ones were rotated away."""
    seq_first: int | None = None
    head: ChainHead = field(default_factory=ChainHead)
    broken: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def examine(name: str, older: str, newest: str, known: ChainHead | None = None) -> Finding:
    """Check the two files of a chain. `known` is a line that has to be there: the last one of a running server."""
    found = Finding(name)
    with ExitStack() as files:
        opened = _opened(files, older, newest)
        lines = ((os.path.basename(path), number, line) for path, file in opened for number, line in _lines(file))
        met = known is None or known.seq == 0
        for file, number, line in lines:
            problem = _take(found, line, is_rotated=file == os.path.basename(older))
            if problem is not None:
                found.broken = f"{file}, line {number}: {problem}"
                return found
            met = met or (known is not None and found.head == known)
    if not met and known is not None:
        found.broken = f"{os.path.basename(newest)}: row {known.seq}, which the server has written, is not there"
    return found


def _take(found: Finding, line: bytes, is_rotated: bool) -> str | None:
    """Add a line to what was found; why it does not fit, if it does not."""
    row = parsed(line)
    if row is None:
        found.torn += 1
        return None
    chained = found.seq_first is not None
    if "prev" not in row:
        if chained:
            return "the row has no hash, and those before it have one"
        found.rows += 1
        found.unchained += 1
        found.head = ChainHead(0, hash_of(line))
        return None
    seq, prev = row.get("seq"), row["prev"]
    if not isinstance(seq, int):
        return "the row has no number"
    if not chained and not found.rows:
        if seq > 1 and not is_rotated:
            return f"the file begins with row {seq}, and there is no older file with the rows before it"
        if seq == 1 and prev != NO_LINE:
            return "row 1 refers to a row before it, which is not there"
    elif seq != found.head.seq + 1:
        return f"row {seq} comes after row {found.head.seq}"
    elif prev != found.head.hash:
        return f"the row before row {seq} is not the one that was written"
    if not chained:
        found.seq_first = seq
        found.since_ms = row["at_ms"] if isinstance(row.get("at_ms"), int) else None
    found.rows += 1
    found.head = ChainHead(seq, hash_of(line))
    return None


def _opened(files: ExitStack, older: str, newest: str) -> list[tuple[str, IO[bytes]]]:
    """Both files, as they are at the same time: a server may rotate them meanwhile."""
    for _ in range(OPENINGS_MAX):
        opened: list[tuple[str, IO[bytes]]] = []
        for path in (older, newest):
            with suppress(FileNotFoundError):
                opened.append((path, files.enter_context(open(path, "rb"))))  # noqa: SIM115 - the stack closes it
        if all(_is_at(path, file) for path, file in opened):
            break
    return opened


def _is_at(path: str, file: IO[bytes]) -> bool:
    """Whether an open file is still where it was."""
    try:
        return os.stat(path).st_ino == os.fstat(file.fileno()).st_ino
    except FileNotFoundError:
        return False


def _lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines of a file with their numbers; empty ones are left out."""
    number = 0
    while line := file.readline(LINE_BYTES_MAX):
        number += 1
        if text := line.rstrip(b"\n"):
            yield number, text
