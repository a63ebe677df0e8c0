"""Reading a log back from a table: single records, and all of it when a shard was taken over.

Other threads wait for an answer as well when it is read under the lock of a broker, so one that does not come soon is
not waited for. TCP finds out after seconds that a peer is gone, and never that a server stands still; a node would
serve none of its shards meanwhile, wherever those are, and lose all of them.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, ParamSpec, TypeVar

from leveret.core.errors import DamagedJournal, JournalFailed, StoreUnreachable
from leveret.core.ports import JournaledState
from leveret.storage.encryption import MasterKeys
from leveret.storage.journal.checkpoint import Position, parse_checkpoint
from leveret.storage.journal.entries import Replay, read_head
from leveret.storage.journal.files.recovery import RecoveredJournal, play_batch
from leveret.storage.journal.files.segments import FRAME_HEADER_BYTES, WINDOW_BYTES, SegmentHeader, parse_header
from leveret.storage.journal.postgres.table import FIRST_START, SegmentRow, ShardRow, ShardTable, Unknown
from leveret.storage.segments import HEADER_BYTES

SOON_S = 2.0
"""Half of the lease that nodes have unless they are told otherwise."""
Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def asked(question: Callable[Given, Answer], *given: Given.args, **named: Given.kwargs) -> Answer:
    """The answer of a table to a question, asked again when the connection had been lost meanwhile."""
    try:
        return question(*given, **named)
    except Unknown:
        pass
    try:
        return question(*given, **named)
    except Unknown as unknown:
        raise unreachable(str(unknown)) from unknown


def unreachable(why: str) -> StoreUnreachable:
    """The error of a caller that gets no answer."""
    return StoreUnreachable(f"the store in PostgreSQL does not answer: {why}; try again later")


class Late(NamedTuple):
    """A question that was not answered soon."""

    question: tuple[object, ...]
    answer: Future[Any]


class Questions:
    """What threads ask about one shard that hold the lock of its broker."""

    def __init__(self) -> None:
        """Wait for every answer: no other thread waits yet."""
        self.away: str | None = None
        """Why the database cannot be asked just now: the next reader need not find it out again."""
        self._thread: ThreadPoolExecutor | None = None
        self._late: Late | None = None

    def hurry(self) -> None:
        """Wait for no answer for long from now on."""
        self._thread = self._thread or ThreadPoolExecutor(1, "leveret-reader")

    def ask(self, question: Callable[Given, Answer], *given: Given.args, **named: Given.kwargs) -> Answer:
        """The answer to a question; StoreUnreachable when there is none soon, or the database is known to be away."""
        if self.away is not None:
            raise unreachable(self.away)
        if self._thread is None:
            return question(*given, **named)
        asking, late = (question, given, named), self._late
        if late is not None and not late.answer.done():
            raise unreachable("it has not answered the question before this one")
        self._late = None
        if late is not None and late.question == asking:
            heard: Answer = late.answer.result()  # else an answer that always takes longer would never be used
            return heard
        try:
            answer = self._thread.submit(question, *given, **named)
        except RuntimeError:
            raise unreachable("it was closed") from None
        try:
            return answer.result(SOON_S)
        except TimeoutError:
            self._late = Late(asking, answer)
            raise unreachable(f"no answer for {SOON_S:g} s") from None

    def close(self) -> None:
        """Refuse all questions from now on; the connections have ended."""
        if self._thread is not None:
            self._thread.shutdown()


READ_BYTES = 4 << 20
"""Fetched at once: a takeover needs little memory however long the log is."""


class TableReader:
    """The records of a log: a piece of a segment at once, encrypted commit batches decrypted whole."""

    def __init__(self, table: ShardTable, keys: MasterKeys, questions: Questions) -> None:
        self._table = table
        self._keys = keys
        self._questions = questions
        self._headers: dict[int, SegmentHeader] = {}

    def window(self, segment: int, offset: int, size: int, end: int) -> tuple[int, bytes]:
        """Some bytes of a segment around a record, and the offset of the first; rows are never seen half."""
        try:
            return self._questions.ask(self._window, segment, offset, size)
        except JournalFailed as error:
            raise damaged(segment, offset, str(error)) from error

    def _window(self, segment: int, offset: int, size: int) -> tuple[int, bytes]:
        if not self.header(segment).key.is_plain:
            return self._decrypted(segment, offset)
        return asked(self._table.window, segment, offset, max(size, WINDOW_BYTES))

    def header(self, segment: int) -> SegmentHeader:
        found = self._headers.get(segment)
        if found is None:
            stored = asked(self._table.header, segment)
            found = None if stored is None else parse_header(stored, segment)
            if found is None:
                raise damaged(segment, FIRST_START, "its header is missing or damaged")
            self._headers[segment] = found
        return found

    def forget(self, segment: int) -> None:
        self._headers.pop(segment, None)

    def whole(self, segment: int) -> bytes:
        """All bytes of a segment, as they would lie in a file."""
        header = self.header(segment)
        return b"".join([header.pack(), *(row.data for row in self.rows(segment, HEADER_BYTES))])

    def rows(self, segment: int, start: int) -> list[SegmentRow]:
        """The commit batches of a segment from an offset on, which follow each other without a gap."""
        found: list[SegmentRow] = []
        while more := asked(self._table.rows, segment, start, WINDOW_BYTES):
            found += more
            start = more[-1].start + len(more[-1].data)
        return found

    def _decrypted(self, segment: int, offset: int) -> tuple[int, bytes]:
        row = asked(self._table.batch, segment, offset)
        bodies = None if row is None else self.header(segment).bodies(self._keys, bytes(row.data))
        if row is None or bodies is None:
            raise damaged(segment, offset, "there is no whole frame")
        return row.start + FRAME_HEADER_BYTES, bodies


def damaged(segment: int, offset: int, why: str) -> DamagedJournal:
    """The error that names the place of what cannot be read."""
    return DamagedJournal(f"segment {segment} in PostgreSQL is damaged at offset {offset}: {why}; restore a backup")


class TableRecovery:
    """From the rows of a shard that was taken over to the state that was durable.

    The checkpoint that counts is restored, then the commit batches after it are replayed. PostgreSQL does not tear
    rows, so there is nothing to cut: a commit batch that is not whole, has another salt than its segment or is out of
    sequence is damage, and so is a log that does not end where the row of the shard says. A damaged checkpoint is left
    out: the log has everything.
    """

    def __init__(
        self, table: ShardTable, reader: TableReader, state: JournaledState, keys: MasterKeys, shard: ShardRow
    ) -> None:
        self._table = table
        self._reader = reader
        self._state = state
        self._keys = keys
        self._shard = shard
        self.result = RecoveredJournal()

    def run(self) -> RecoveredJournal:
        """Restore and replay; say where the log goes on."""
        result, shard = self.result, self._shard
        position = self._restore()
        replay = Replay(self._state, result.placed)
        result.segments = max(0, shard.segment + 1 - shard.oldest)
        for segment in range(position.segment, shard.segment + 1):
            position = self._replay_segment(segment, position, replay)
        if position.seq != shard.last_seq:
            raise damaged(position.segment, position.offset, f"frame {shard.last_seq} should be its last")
        result.position = position
        result.entries = replay.entries
        return result

    def _restore(self) -> Position:
        """Restore the checkpoint if there is one; give the position to replay from."""
        shard, result = self._shard, self.result
        if shard.checkpoint:
            stored = asked(self._table.load, shard.checkpoint)
            checkpoint = parse_checkpoint(stored, self._keys)
            if checkpoint is not None and checkpoint.position.segment >= shard.oldest:
                return result.restore(self._state, checkpoint, shard.oldest)
            result.checkpoints_ignored += 1
        return Position(shard.oldest, HEADER_BYTES, -1 if shard.segment else 0)

    def _replay_segment(self, segment: int, position: Position, replay: Replay) -> Position:
        """Replay the commit batches of a segment from a position on; give the position after the last one."""
        header = self._reader.header(segment)
        offset, seq = (position.offset, position.seq) if segment == position.segment else (HEADER_BYTES, position.seq)
        if offset == HEADER_BYTES:
            if seq not in (-1, header.first_seq - 1):
                raise damaged(segment, offset, f"frame {seq + 1} should be its first, not {header.first_seq}")
            seq = header.first_seq - 1
        while rows := asked(self._table.rows, segment, offset, READ_BYTES):
            for row in rows:
                stored = bytes(row.data)
                head = read_head(stored, 0, header.salt)
                if head is None or head.seq != seq + 1 or row.start != offset or head.end != len(stored):
                    raise damaged(segment, offset, f"there is no whole frame {seq + 1}")
                play_batch(replay, stored, 0, head, header, self._keys, row.start)
                self.result.frames += 1
                offset, seq = row.start + len(stored), head.seq
        if segment == self._shard.segment and header.key.is_plain and not self._keys:
            self.result.last = header
            return Position(segment, offset, seq)
        return Position(segment + 1, HEADER_BYTES, seq)
