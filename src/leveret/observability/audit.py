"""The audit log: who changed what, and what was refused, in the server's log and in files of bounded size.

    audit.jsonl            what administrators and the operator of the machine did
    audit-clients.jsonl    what all other users did, and every change by AMQP and SQS
    audit-refusals.jsonl   refused operations and failed logins, counted

The lines of each are chained: see chain.py. Each file has its own bound (see row_file.py), so that rows of one kind
never push out those of another: a user without permissions can only fill the third file, and one without the tag
`administrator` only the last two.

Rows of the first file are written before the client has its answer. All others are written together: after FLUSH_S, or
as soon as PENDING_MAX of them wait. Every row is synced to the disk within about FLUSH_S after that. `recent` reads
what is in memory: the newest rows of each kind, those before the last start too.
"""

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from heapq import merge
from itertools import count, islice
from threading import Event, Lock, Thread
from typing import Any, Literal, NamedTuple, get_args

from leveret.clock import Clock
from leveret.core.errors import LeveretError
from leveret.observability.chain import ChainHead, Row, text_of
from leveret.observability.forwarding import AuditForwarder, Line
from leveret.observability.logs import HIDDEN, SECRET, Log, around
from leveret.observability.row_file import ENDS, FILE_BYTES_MAX, RowFile, sync

SUMMARY_MS = 60_000
KEYS_MAX = 256
OTHERS = "(others)"  # in place of the user, when the table is full


class RefusalKey(NamedTuple):
    """What is counted together. `operation` is a word of ours, never text that a client chose."""

    by: str
    operation: str
    cause: str


class Counted:
    """Refusals of one key since the last row about them."""

    __slots__ = ("count", "row", "since_ms")

    def __init__(self) -> None:
        self.count = 0
        self.since_ms = 0
        self.row: Row = {}

    def add(self, row: Row) -> None:
        """Count one; the last one is the example."""
        if not self.count:
            self.since_ms = row["at_ms"]
        self.count += 1
        self.row = row


class Refusals:
    """The table; not for several threads at once."""

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self._keys_max = keys_max
        self._keys: dict[RefusalKey, Counted] = {}
        self._others: dict[str, Counted] = {}
        self._due_ms: int | None = None

    def is_first(self, key: RefusalKey, row: Row) -> bool:
        """Whether the row is to be written as it is; otherwise it is counted."""
        if self._due_ms is None:
            self._due_ms = row["at_ms"] + SUMMARY_MS
        known = self._keys.get(key)
        if known is not None:
            known.add(row)
            return False
        if len(self._keys) >= self._keys_max:
            self._others.setdefault(key.operation, Counted()).add({**row, "by": OTHERS})
            return False
        self._keys[key] = Counted()
        return True

    def summaries(self, now_ms: int, *, all: bool = False) -> list[Row]:
        """The rows that are due: one for each key with refusals since its last row. Keys without any are dropped."""
        if self._due_ms is None or (now_ms < self._due_ms and not all):
            return []
        busy = {key: each for key, each in self._keys.items() if each.count}
        counted = [*busy.values(), *self._others.values()]
        rows = [{**each.row, "at_ms": now_ms, "since_ms": each.since_ms, "count": each.count} for each in counted]
        self._keys = {key: Counted() for key in busy}
        self._others = {}
        self._due_ms = now_ms + SUMMARY_MS if busy else None
        return rows


ENTRIES_MAX = 1_000  # of each kind, in memory
FIELD_BYTES_MAX = 512  # as JSON: a queue name of 255 bytes fits, in whatever script
SHORT_CHARACTERS = FIELD_BYTES_MAX // 12  # one outside of the basic plane has 12 bytes as JSON, all others fewer
PENDING_MAX = 512  # rows that wait for the disk: more are written at once, by the thread that has the next one
FLUSH_S = 1.0
FILES_OF_KIND = len(ENDS)
DONE = "done"
UNFINISHED = "failed, or was given up by the client: look whether it was done"
ADMINISTRATOR = "administrator"
LOG_IN = "log in"
TOKEN = "(token)"

Kind = Literal["administration", "clients", "refusals"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FILES: dict[Kind, str] = {
    "administration": "audit",
    "clients": "audit-clients",
    "refusals": "audit-refusals",
}

LINKS = frozenset(("seq", "prev"))
LOST: Row = {"by": "(server)", "act": "write the audit log", "outcome": "the disk did not take rows: see the log"}

LOG = Log("audit")


class AuditEntry:
    """An act that is being done; what came of it, unless it raises something."""

    def __init__(self) -> None:
        self.outcome = DONE
        self.cause = ""
        self.facts: dict[str, object] = {}
        """What is known only at its end, such as how many messages it was about."""

    def refuse(self, cause: object, reason: str) -> None:
        """It was refused: a word for what is counted together, and a sentence."""
        self.outcome, self.cause = reason, str(cause)


class Trail:
    """Rows of one kind: in memory, waiting for the disk, in a file."""

    def __init__(self, file: RowFile) -> None:
        self.file = file
        self.rows: deque[tuple[int, int, Row]] = deque(maxlen=ENTRIES_MAX)
        self.pending: list[Row] = []
        self.lost = 0
        """Rows that the disk did not take, since the last one that it took."""
        self.lost_total = 0
        self.noted = 0
        """Rows since the start of the process."""
        for row in file.read(ENTRIES_MAX):
            shown = {name: value for name, value in row.items() if name not in LINKS}
            self.rows.append((_time_of(row), -1, shown))

    def write(self, rows: list[Row]) -> None:
        """Write rows; how many the disk has not taken is told by a row as soon as it takes some again."""
        if not rows:
            return
        told = [{**rows[0], **LOST, "count": self.lost}] if self.lost else []
        written = self.file.append([*told, *rows])
        left = len(rows) + len(told) - written
        self.lost_total += left
        if left and self.file.written is not None:  # a collector may take what the disk does not
            for row in [*told, *rows][written:]:
                self.file.written(row, text_of(row))
        self.lost = self.lost + len(rows) if written == 0 and self.lost else left


class Audit:
    """The audit log of one server; used by several threads."""

    def __init__(self, clock: Clock, directory: str | None = None, *, bytes_max: int = FILE_BYTES_MAX) -> None:
        """Keep rows in a directory, or in memory only. `bytes_max` is for each file, of which a kind has two."""
        self._clock = clock
        self._trails = {
            kind: Trail(RowFile(directory, name, LOG, bytes_max, chained=True)) for kind, name in FILES.items()
        }
        self._refusals = Refusals()
        self._numbers = count()
        self._mutex = Lock()
        self._writing = Lock()  # taken before the mutex: rows reach their file in the order of their time
        self._closed = Event()
        self._thread: Thread | None = None
        self.forwarder: AuditForwarder | None = None

    # What is noted

    def note(
        self, by: str, act: str, outcome: str = DONE, /, *, kind: Kind = "administration", **facts: object
    ) -> None:
        """Note a change; one of an administrator is in its file when this returns."""
        row = self._row(by, act, outcome, facts)
        self._keep(kind, row)
        _log(row)
        if kind == "administration":
            self.flush()

    def changed(self, by: str, act: str, /, **facts: object) -> None:
        """Note a change by a client; without a line in the log, since applications make many of them."""
        self._keep("clients", self._row(by, act, DONE, facts))

    def refused(self, by: str, act: str, reason: str, /, operation: str, cause: str, **facts: object) -> None:
        """Count a refusal; `operation` and `cause` say with which others."""
        row = self._row(by, act, reason, facts)
        with self._mutex:
            is_first = self._refusals.is_first(RefusalKey(row["by"], operation, cause), row)
        if is_first:
            self._keep("refusals", row)
            _log(row)

    def login_failed(self, protocol: str, user: str | None, peer: str, reason: str) -> None:
        """Count a failed login; those of one user from one address by one protocol together. A token has no user."""
        self.refused(user or TOKEN, LOG_IN, reason, f"{LOG_IN} by {protocol}", peer, protocol=protocol, peer=peer)

    @contextmanager
    def noting(self, by: str, act: str, operation: str, kind: Kind, /, **facts: object) -> Iterator[AuditEntry]:
        """Note an act at its end: that it was done, why it was refused, or that its outcome is not known."""
        noted = AuditEntry()
        try:
            yield noted
        except LeveretError as error:
            self.refused(by, act, str(error) or type(error).__name__, operation, type(error).__name__, **facts)
            raise
        except BaseException:
            self.note(by, act, UNFINISHED, kind=kind, **facts)
            raise
        if noted.outcome == DONE:
            self.note(by, act, DONE, kind=kind, **facts, **noted.facts)
        else:
            self.refused(by, act, noted.outcome, operation, noted.cause, **facts)

    def _row(self, by: str, act: str, outcome: str, facts: Mapping[str, object]) -> Row:
        row: Row = {"at_ms": self._clock.now_ms()}
        for name, value in (*facts.items(), *around().items()):
            row[name] = clipped(value) if is_shown(name) else HIDDEN
        row["by"], row["act"], row["outcome"] = clipped(by), clipped(act), clipped(outcome)
        return row

    def _keep(self, kind: Kind, *rows: Row) -> None:
        trail = self._trails[kind]
        with self._mutex:
            for row in rows:
                trail.rows.append((row["at_ms"], next(self._numbers), row))
                trail.pending.append(row)
                trail.noted += 1
            is_full = len(trail.pending) >= PENDING_MAX
        if is_full:
            self.flush()

    # What is read

    def recent(self, limit: int = 100, kind: Kind | None = None) -> list[Mapping[str, Any]]:
        """The last rows, the newest first; of one kind, or of all."""
        with self._mutex:
            newest = [
                [(at_ms, number, name, row) for at_ms, number, row in islice(reversed(trail.rows), limit)]
                for name, trail in self._trails.items()
                if kind in (None, name)
            ]
        found = merge(*newest, key=lambda each: each[:2], reverse=True)
        return [{**row, "kind": name} for _, _, name, row in islice(found, limit)]

    def heads(self) -> dict[Kind, ChainHead]:
        """The last line of each log that is in its file."""
        return {kind: trail.file.head for kind, trail in self._trails.items()}

    def counts(self) -> dict[str, dict[Kind, int]]:
        """Rows since the start of the process: all, and those that the disk has not taken."""
        return {
            "rows": {kind: trail.noted for kind, trail in self._trails.items()},
            "lost": {kind: trail.lost_total for kind, trail in self._trails.items()},
        }

    # The disk

    def forward(self, forwarder: AuditForwarder) -> None:
        """Forward every row that is written from now on; closing the log closes the forwarder, too."""
        self.forwarder = forwarder

        def forwarding(kind: Kind, name: str) -> Callable[[Row, bytes], None]:
            return lambda row, line: forwarder.add(Line(name, _time_of(row), kind == "refusals", line))

        for kind, name in FILES.items():
            self._trails[kind].file.written = forwarding(kind, name)

    def start(self) -> None:
        """Write and sync what waits once in a while, in a thread, until it is closed."""
        self._thread = Thread(target=self._run, name="leveret-audit", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Write everything; nothing is noted any more."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()
        self.summarise(all=True)
        self.flush()
        self._sync()
        if self.forwarder is not None:
            self.forwarder.close()

    def _run(self) -> None:
        while not self._closed.wait(FLUSH_S):
            self.summarise()
            self.flush()
            self._sync()

    def summarise(self, *, all: bool = False) -> None:
        """Note how often was refused what was refused again, if a minute has passed."""
        with self._mutex:
            rows = self._refusals.summaries(self._clock.now_ms(), all=all)
        self._keep("refusals", *rows)
        for row in rows:
            _log(row)

    def flush(self) -> None:
        with self._writing:
            for trail in self._trails.values():
                with self._mutex:
                    rows, trail.pending = trail.pending, []
                trail.write(rows)

    def _sync(self) -> None:
        with self._writing:
            unsynced = [name for trail in self._trails.values() for name in trail.file.take_unsynced()]
        sync(unsynced)


@cache
def is_shown(name: str) -> bool:
    """Whether a field has no credentials."""
    return name == "routing_key" or not SECRET.search(name)


def kind_of(tags: frozenset[str]) -> Kind:
    """Where the changes of a user with these tags are noted."""
    return "administration" if ADMINISTRATOR in tags else "clients"


def clipped(value: object) -> object:
    """A value fit for a row: numbers as they are, everything else as text of at most FIELD_BYTES_MAX as JSON."""
    if type(value) is str and len(value) <= SHORT_CHARACTERS:
        return value
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else str(value)
    if len(text) <= FIELD_BYTES_MAX and _size(text) <= FIELD_BYTES_MAX:
        return text
    left, kept = FIELD_BYTES_MAX - len("..."), []
    for character in text[:FIELD_BYTES_MAX]:
        left -= _size(character)
        if left < 0:
            break
        kept.append(character)
    return "".join(kept) + "..."


def _size(text: str) -> int:
    return len(json.dumps(text)) - 2


def _time_of(row: Row) -> int:
    """When it was noted; a file can be changed by others."""
    at_ms = row.get("at_ms")
    return at_ms if isinstance(at_ms, int) else 0


def _log(row: Row) -> None:
    LOG.info("act", **{name: value for name, value in row.items() if name != "at_ms"})
